// Where the pixels of an image come from.
#pragma once

#include <cstdint>
#include <memory>

#include <facula/data/image.h>

#include "io/images/image_file.h"

namespace facula::data {

using io::PixelRows;
using io::RowReader;

/// Yields pixels on demand. Implementations are immutable and may be read by several threads.
class PixelSource {
 public:
  virtual ~PixelSource() = default;

  std::int64_t height = 0, width = 0, channels = 0;

  /// The rows of `part`, which lies inside the image, channels innermost: what decoding everything
  /// and cutting would give. The source must outlive the result. Throws IoError naming the file.
  virtual std::unique_ptr<RowReader> rows(const Rect& part) const = 0;

  /// Writes the pixels of `part` to `destination`, dense.
  void read(const Rect& part, std::uint8_t* destination) const;
};

/// Pixels that somebody keeps in memory, rows that lie `stride` bytes apart.
class PixelMemory final : public PixelSource {
 public:
  PixelMemory(const std::uint8_t* pixels, std::int64_t height, std::int64_t width,
              std::int64_t channels, std::int64_t stride);
  std::unique_ptr<RowReader> rows(const Rect& part) const override;

 private:
  const std::uint8_t* pixels_;
  std::int64_t stride_;
};

}  // namespace facula::data
