// Turning images.
#pragma once

#include <cstdint>

#include <facula/data/image.h>

namespace facula::data {

/// Turns dense pixels (uint8 [height, width, channels], 1 or 3 channels) counter-clockwise about
/// the middle of the image into `destination`, an image of the same size, as Pillow's rotate():
/// `nearest`, or `bilinear` rounded towards 0; `fill` where the source has no pixel.
void rotate(const std::uint8_t* source, std::int64_t height, std::int64_t width,
            std::int64_t channels, double degrees, Interpolation interpolation, std::uint8_t fill,
            std::uint8_t* destination);

}  // namespace facula::data
