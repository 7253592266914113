#include "data/augment.h"

#include <algorithm>

#include "data/random_choice.h"

namespace facula::data {

Placement draw_placement(const DataLoaderOptions& options, std::int64_t epoch, std::int64_t row) {
  if (!options.flip && options.crop_padding == 0) return {};
  const PhiloxBlock random = random_block(options.seed, Purpose::augment, epoch, row);
  const std::int64_t shifts = 2 * options.crop_padding + 1;
  return {.flip = options.flip && (random.word[0] >> 31) != 0,
          .top = below(shifts, random.word[1]) - options.crop_padding,
          .left = below(shifts, random.word[2]) - options.crop_padding};
}

PixelTable::PixelTable(const ImageDataset& set, bool normalize) {
  for (std::size_t c = 0; c < set.mean.size(); ++c) {
    for (int value = 0; value < 256; ++value) {
      const double scaled = value / 255.0;
      values_.push_back(
          static_cast<float>(normalize ? (scaled - set.mean[c]) / set.std[c] : scaled));
    }
  }
}

void convert_image(const std::uint8_t* source, const ImageShape& shape, const Placement& placement,
                   const PixelTable& table, float* destination) {
  const auto [channels, height, width] = shape;
  // Columns [first, last) of the crop show the image, the others lie beside it.
  const std::int64_t first = std::clamp<std::int64_t>(-placement.left, 0, width);
  const std::int64_t last = std::clamp<std::int64_t>(width - placement.left, first, width);
  for (std::int64_t y = 0; y < height; ++y) {
    float* row = destination + y * width * channels;
    const std::int64_t source_y = y + placement.top;
    const bool inside = source_y >= 0 && source_y < height;
    if (!inside || last - first < width) {
      for (std::int64_t i = 0; i < width * channels; ++i) row[i] = table.channel(i % channels)[0];
    }
    if (!inside) continue;
    const std::uint8_t* pixels = source + (source_y * width + placement.left) * channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      const float* values = table.channel(c);
      for (std::int64_t x = first; x < last; ++x) {
        // The finished crop is mirrored.
        const std::int64_t target_x = placement.flip ? width - 1 - x : x;
        row[target_x * channels + c] = values[pixels[x * channels + c]];
      }
    }
  }
}

}  // namespace facula::data
