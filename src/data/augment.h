// From stored pixels to the numbers that a network sees.
#pragma once

#include <cstdint>
#include <vector>

#include <facula/data.h>

namespace facula::data {

/// Size of one image; pixels lie row by row, channels innermost.
struct ImageShape {
  std::int64_t channels, height, width;

  std::int64_t elements() const { return channels * height * width; }
};

/// The geometric part of augmentation, drawn for one image.
struct Placement {
  bool flip = false;
  /// The output's upper left corner in the image; outside of it everything is black.
  std::int64_t top = 0, left = 0;
};

/// What happens to the image in row `row` in an epoch.
Placement draw_placement(const DataLoaderOptions& options, std::int64_t epoch, std::int64_t row);

/// The number that each of the 256 pixel values becomes, for every channel: (v / 255 - mean) / std,
/// or v / 255 without normalisation.
class PixelTable {
 public:
  PixelTable(const ImageDataset& set, bool normalize);

  const float* channel(std::int64_t c) const { return values_.data() + c * 256; }

 private:
  std::vector<float> values_;
};

/// Converts one image. `source` and `destination` have the same shape.
void convert_image(const std::uint8_t* source, const ImageShape& shape, const Placement& placement,
                   const PixelTable& table, float* destination);

}  // namespace facula::data
