// Resizing with antialiasing.
#pragma once

#include <cstdint>

#include <facula/data/image.h>

namespace facula::data {

/// Pixels in memory: rows of width * channels bytes that lie `stride` bytes apart.
struct PixelView {
  const std::uint8_t* pixels = nullptr;
  std::int64_t height = 0, width = 0, channels = 0, stride = 0;
};

/// Resizes `source` to height x width and writes the part `window` of the result, which lies inside
/// it, to `destination`: dense, channels innermost. The same bits as Pillow: rows are filtered,
/// then columns, and rounded in between, with weights of 22 bits. Each thread keeps the weights for
/// the next image of the same sizes. Throws ValueError for sides of 2^31 and more.
void resample(const PixelView& source, std::int64_t height, std::int64_t width,
              Interpolation interpolation, const Rect& window, std::uint8_t* destination);

}  // namespace facula::data
