// Resizing pixels in memory to pixels in memory.
#pragma once

#include <cstdint>
#include <cstring>

#include "data/resample.h"

namespace facula::data {

/// Resizes all of `source` to height x width and writes the part `window` of it, dense.
inline void resize_to(const PixelSource& source, std::int64_t height, std::int64_t width,
                      Interpolation interpolation, const Rect& window, std::uint8_t* destination) {
  const std::int64_t bytes = window.width * source.channels;
  resample(source,
           {.region = {0, 0, source.height, source.width},
            .height = height,
            .width = width,
            .interpolation = interpolation,
            .window = window},
           [&](std::int64_t y, const std::uint8_t* row) {
             std::memcpy(destination + y * bytes, row, static_cast<std::size_t>(bytes));
           });
}

}  // namespace facula::data
