// Arithmetic on colours, as torchvision does it with Pillow's operations.
#pragma once

#include <cstdint>

namespace facula::data {

/// Pixels in memory, one after the other: `count` pixels of 1 (grey) or 3 (RGB) bytes.
struct Pixels {
  std::uint8_t* data = nullptr;
  std::int64_t count = 0, channels = 0;
};

/// ITU-R 601 luma, rounded to nearest.
inline std::uint8_t luma(std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  return static_cast<std::uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
}

/// Factor 0 gives black, 1 the image itself, 2 an image twice as bright. Results of these functions
/// are rounded towards 0 and clamped to 0 ... 255.
void adjust_brightness(const Pixels& pixels, double factor);
/// Factor 0 gives the mean luma of the image everywhere.
void adjust_contrast(const Pixels& pixels, double factor);
/// Factor 0 gives grey. Grey images stay as they are.
void adjust_saturation(const Pixels& pixels, double factor);
/// Turns the hue by `shift`, a share of a full turn in [-0.5, 0.5], in steps of 1/255, the hue's
/// resolution. Grey images stay as they are.
void adjust_hue(const Pixels& pixels, double shift);

}  // namespace facula::data
