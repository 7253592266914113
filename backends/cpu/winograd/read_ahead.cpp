#include <algorithm>

#include "backends/cpu/winograd/winograd.h"

namespace facula::cpu::winograd {
namespace {

struct Range {
  std::int64_t first, end;
};

/// Pixels in one dimension that tile number `tile` needs and the one before it does not.
Range own_pixels(std::int64_t tile, std::int64_t pad, std::int64_t taps, std::int64_t size) {
  const std::int64_t begin = tile * kTile - pad, end = begin + kTile + taps - 1;
  const std::int64_t first = tile == 0 ? begin : end - kTile;
  return {std::max<std::int64_t>(first, 0), std::min(end, size)};
}

}  // namespace

void ReadAhead::add(const Images<const float>& images, const Part& tiles, std::int64_t taps_h,
                    std::int64_t taps_w) {
  constexpr std::int64_t kLineElements = 16;
  for (std::int64_t tile = tiles.first_tile; tile < tiles.first_tile + tiles.tiles; ++tile) {
    const std::int64_t column = tile % images.tile_columns;
    const std::int64_t row = tile / images.tile_columns % images.tile_rows;
    const std::int64_t image = tile / images.tile_columns / images.tile_rows;
    const auto [y_first, y_end] = own_pixels(row, images.pad_h, taps_h, images.h);
    const auto [x, x_end] = own_pixels(column, images.pad_w, taps_w, images.w);
    const std::int64_t pixels = x_end - x;
    if (pixels <= 0) continue;
    // Pixels without a gap between them are one piece.
    const bool dense = images.pixel_stride == tiles.channels;
    const std::int64_t pieces = dense ? 1 : pixels;
    const std::int64_t lines =
        divide_up(dense ? pixels * tiles.channels : tiles.channels, kLineElements);
    for (std::int64_t y = y_first; y < y_end; ++y) {
      const float* first = images.data + image * images.image_stride + y * images.line_stride +
                           x * images.pixel_stride + tiles.first_channel;
      for (std::int64_t j = 0; j < pieces; ++j, ++pieces_count_) {
        pieces_[static_cast<std::size_t>(pieces_count_)] = {first + j * images.pixel_stride, lines};
      }
      lines_ += pieces * lines;
    }
  }
}

}  // namespace facula::cpu::winograd
