#include <algorithm>

#include "backends/cpu/winograd/winograd.h"

namespace facula::cpu::winograd {

void ReadAhead::add(const Images<const float>& images, const Part& tiles, std::int64_t taps_h,
                    std::int64_t taps_w) {
  constexpr std::int64_t kLineElements = 16;
  for (std::int64_t tile = tiles.first_tile; tile < tiles.first_tile + tiles.tiles; ++tile) {
    const std::int64_t row = tile / images.tile_columns, column = tile % images.tile_columns;
    const std::int64_t top = row % images.tile_rows * kTile - images.pad_h + taps_h - 1;
    const std::int64_t left = column * kTile - images.pad_w + taps_w - 1;
    const std::int64_t x = std::max<std::int64_t>(left, 0);
    const std::int64_t pixels = std::min(left + kTile, images.w) - x;
    if (pixels <= 0) continue;
    // Pixels without a gap between them are one piece.
    const bool dense = images.pixel_stride == tiles.channels;
    const std::int64_t pieces = dense ? 1 : pixels;
    const std::int64_t lines =
        divide_up(dense ? pixels * tiles.channels : tiles.channels, kLineElements);
    for (std::int64_t y = std::max<std::int64_t>(top, 0); y < std::min(top + kTile, images.h);
         ++y) {
      const float* first = images.data + row / images.tile_rows * images.image_stride +
                           y * images.line_stride + x * images.pixel_stride + tiles.first_channel;
      for (std::int64_t j = 0; j < pieces; ++j, ++pieces_count_) {
        pieces_[static_cast<std::size_t>(pieces_count_)] = {first + j * images.pixel_stride, lines};
      }
      lines_ += pieces * lines;
    }
  }
}

}  // namespace facula::cpu::winograd
