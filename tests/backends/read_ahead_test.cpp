// What Winograd's products ask the memory for: the pixels that the next tiles read, none outside of
// the images and none twice.
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "backends/cpu/winograd/winograd.h"

namespace facula::cpu::winograd {
namespace {

constexpr std::int64_t kLineElements = 16;

/// How often every cache line of the images is asked for, by its distance from their first one.
std::map<std::int64_t, int> lines_of(const ReadAhead& ahead, const float* images) {
  Products products{};
  ahead.during(products);
  std::map<std::int64_t, int> lines;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < products.pieces_ahead; ++i) {
    const Lines& piece = products.ahead[i];
    count += piece.count;
    for (std::int64_t k = 0; k < piece.count; ++k) {
      ++lines[(piece.first - images) / kLineElements + k];
    }
  }
  EXPECT_EQ(products.lines_ahead, count);
  return lines;
}

struct Case {
  std::int64_t h, w, padding, channels, some_channels;
};

/// All lines of pixels that the tiles of `c` read, once for each region of tiles.
std::map<std::int64_t, int> expected(const Case& c, const Correlation& s, std::int64_t first) {
  std::map<std::int64_t, int> lines;
  const auto for_all_pixels = [&c](const TilesOfLine& tiles, std::int64_t size, auto&& use) {
    const std::int64_t end = (tiles.first + tiles.count) * kTile + 2 - c.padding;
    for (std::int64_t i = tiles.first * kTile - c.padding; tiles.count > 0 && i < end; ++i) {
      if (i >= 0 && i < size) use(i);
    }
  };
  for (std::int64_t region = 0; region < Correlation::kRegions; ++region) {
    const PartOfCorrelation part = s.part(0, region);
    for (std::int64_t n = 0; n < s.n; ++n) {
      for_all_pixels(part.tile_rows, c.h, [&](std::int64_t y) {
        for_all_pixels(part.tile_columns, c.w, [&](std::int64_t x) {
          const std::int64_t pixel = ((n * c.h + y) * c.w + x) * c.channels + first;
          for (std::int64_t k = 0; k < c.some_channels; k += kLineElements) {
            ++lines[(pixel + k) / kLineElements];
          }
        });
      });
    }
  }
  return lines;
}

// Enough images that some end in smaller tiles.
constexpr std::int64_t kImages = 6;

TEST(ReadAhead, AsksForEveryPixelOnce) {
  const Case cases[] = {{8, 8, 1, 64, 64},   {9, 7, 1, 32, 16}, {5, 12, 0, 16, 16},
                        {10, 10, 2, 48, 32}, {4, 4, 1, 16, 16}, {3, 6, 2, 32, 32}};
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << c.h << 'x' << c.w << " padding " << c.padding << ", "
                                    << c.some_channels << " of " << c.channels << " channels");
    const std::int64_t oh = c.h + 2 * c.padding - 2, ow = c.w + 2 * c.padding - 2;
    const Correlation s{kImages, c.h, c.w, c.channels, oh, ow, 16, c.padding, c.padding, 1, false};
    const std::vector<float> images(static_cast<std::size_t>(kImages * c.h * c.w * c.channels));
    const std::int64_t first = c.channels - c.some_channels;
    ReadAhead ahead;
    ASSERT_LE(s.tiles() * ReadAhead::kInputPixels, ReadAhead::kMostPixels);
    for (std::int64_t region = 0; region < Correlation::kRegions; ++region) {
      const PartOfCorrelation part = s.part(0, region);
      ahead.add(s.inputs(part, images.data()), {0, s.tiles(region), first, c.some_channels}, part);
    }
    EXPECT_EQ(lines_of(ahead, images.data()), expected(c, s, first));
  }
}

TEST(ReadAhead, HasNothingAfterTheLastTile) {
  const Correlation s{1, 8, 8, 16, 8, 8, 16, 1, 1, 1, false};
  const std::vector<float> images(8 * 8 * 16);
  ReadAhead ahead;
  ahead.add(s.inputs(s.part(0), images.data()), {s.tiles(), 0, 0, 16}, s.part(0));
  EXPECT_TRUE(lines_of(ahead, images.data()).empty());
}

}  // namespace
}  // namespace facula::cpu::winograd
