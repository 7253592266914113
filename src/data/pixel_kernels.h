// The inner loops of the input pipeline, which backends provide for each instruction set.
#pragma once

#include <cstdint>

namespace facula::data {

/// Weights of filters are fixed-point numbers with this many bits after the point, as in Pillow.
inline constexpr int kWeightBits = 22;

/// The weights of two neighbouring taps, cut into halves that vectors can multiply:
/// high * 2^kLowBits + low.
struct WeightPair {
  static constexpr int kLowBits = 11;

  std::int16_t high[2], low[2];

  void set(int tap, std::int32_t weight) {
    high[tap] = static_cast<std::int16_t>(weight >> kLowBits);
    low[tap] = static_cast<std::int16_t>(weight & ((1 << kLowBits) - 1));
  }
};

/// What blend_pixels() works with: rows of pixels, and for each pixel of the result the pixels that
/// it is made of.
struct BlendPixels {
  /// Rows of pixels that lie source_stride bytes apart, each followed by kBlendSlack bytes that may
  /// be read. No value of theirs has an effect.
  const std::uint8_t* source;
  std::int64_t source_stride;
  /// `height` rows of `width` pixels, each followed by kBlendSlack bytes that may be overwritten.
  std::uint8_t* destination;
  std::int64_t destination_stride;
  std::int64_t height, width, channels;
  /// Pixel x of a row is the sum of pixels first[x] ... first[x] + 2 * pairs - 1 with the weights
  /// from weights[x * pairs], divided by 2^kWeightBits, rounded to nearest and clamped to
  /// 0 ... 255. Only the last tap may lie beyond the row. Both tables go on for kBlendGroup - 1
  /// pixels.
  const std::int32_t* first;
  const WeightPair* weights;
  std::int64_t pairs;
};

inline constexpr std::int64_t kBlendSlack = 32;
inline constexpr std::int64_t kBlendGroup = 5;

/// Rows are of `count` bytes or `pixels` pixels with their channels innermost. Same bits on every
/// instruction set.
struct PixelKernels {
  /// destination[i] = source[i] * scale[i] + shift[i], rounded twice.
  void (*to_float)(const std::uint8_t* source, const float* scale, const float* shift,
                   std::int64_t count, float* destination);
  /// Reverses the order of the pixels of 1 or 3 channels. No overlap.
  void (*mirror)(const std::uint8_t* source, std::int64_t pixels, std::int64_t channels,
                 std::uint8_t* destination);
  /// One row of the result from `taps` rows that lie `stride` bytes apart, in the same way. If
  /// `taps` is odd, the last weight is 0.
  void (*blend_rows)(const std::uint8_t* rows, std::int64_t stride, const WeightPair* weights,
                     std::int64_t taps, std::int64_t count, std::uint8_t* destination);
  void (*blend_pixels)(const BlendPixels& blend);
};

const PixelKernels& pixel_kernels();
/// Called when the CPU backend registers.
void set_pixel_kernels(const PixelKernels& kernels);

}  // namespace facula::data
