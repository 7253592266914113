// Resizing with antialiasing.
#pragma once

#include <cstdint>

#include <facula/data/image.h>

#include "base/function_ref.h"
#include "data/pixel_source.h"

namespace facula::data {

/// What resample() is to do: resize `region` of the source to height x width, and cut out `window`.
struct Resizing {
  Rect region;
  std::int64_t height = 0, width = 0;
  Interpolation interpolation = Interpolation::bilinear;
  Rect window;
};

/// Calls `emit` for the rows of the window from top to bottom, channels innermost; they are valid
/// during the call. The same bits as Pillow: rows are filtered, then columns, and rounded in
/// between, with weights of 22 bits. Of the source, only what the window shows is read, a few rows
/// at a time. Each thread keeps the weights for the next image of the same sizes. Throws ValueError
/// for sides of 2^31 and more.
void resample(const PixelSource& source, const Resizing& resizing,
              FunctionRef<void(std::int64_t y, const std::uint8_t* row)> emit);

}  // namespace facula::data
