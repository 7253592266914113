#include "data/pixel_source.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace facula::data {
namespace {

class MemoryRows final : public RowReader {
 public:
  /// `part` of an image that ends at `end`.
  MemoryRows(const std::uint8_t* part, std::int64_t row_bytes, std::int64_t stride,
             const std::uint8_t* end)
      : next_(part), row_bytes_(row_bytes), stride_(stride), end_(end) {}

  PixelRows next(std::int64_t count) override {
    const PixelRows rows{next_, stride_};
    const std::int64_t bytes = (count - 1) * stride_ + row_bytes_;
    next_ += count * stride_;
    if (end_ - rows.pixels >= bytes + kSlack) return rows;
    // What lies beyond the image may not be ours to read.
    copy_.resize(static_cast<std::size_t>(bytes + kSlack));
    std::memcpy(copy_.data(), rows.pixels, static_cast<std::size_t>(bytes));
    return {copy_.data(), stride_};
  }

 private:
  const std::uint8_t* next_;
  std::int64_t row_bytes_, stride_;
  const std::uint8_t* end_;
  std::vector<std::uint8_t> copy_;
};

}  // namespace

void PixelSource::read(const Rect& part, std::uint8_t* destination) const {
  constexpr std::int64_t kRows = 16;  // at once, to copy them while they are in the cache
  const std::int64_t bytes = part.width * channels;
  const auto reader = rows(part);
  for (std::int64_t y = 0; y < part.height; y += kRows) {
    const std::int64_t count = std::min(kRows, part.height - y);
    const PixelRows pixels = reader->next(count);
    for (std::int64_t i = 0; i < count; ++i, destination += bytes) {
      std::memcpy(destination, pixels.pixels + i * pixels.stride, static_cast<std::size_t>(bytes));
    }
  }
}

PixelMemory::PixelMemory(const std::uint8_t* pixels, std::int64_t rows, std::int64_t columns,
                         std::int64_t depth, std::int64_t stride)
    : pixels_(pixels), stride_(stride) {
  height = rows;
  width = columns;
  channels = depth;
}

std::unique_ptr<RowReader> PixelMemory::rows(const Rect& part) const {
  return std::make_unique<MemoryRows>(pixels_ + part.top * stride_ + part.left * channels,
                                      part.width * channels, stride_,
                                      pixels_ + (height - 1) * stride_ + width * channels);
}

}  // namespace facula::data
