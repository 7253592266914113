// Images that are not in memory as pixels.
#pragma once

#include <cstdint>
#include <string>

#include <facula/data/image.h>

namespace facula::data {

/// Yields pixels on demand. Implementations are immutable and may be read by several threads.
class PixelSource {
 public:
  virtual ~PixelSource() = default;

  std::int64_t height = 0, width = 0, channels = 0;

  /// Writes the pixels of `part`, which lies inside the image, to `destination`: rows of
  /// part.width * channels bytes, one after the other. They are those that decoding everything
  /// and cutting would give. Throws IoError naming the file.
  virtual void read(const Rect& part, std::uint8_t* destination) const = 0;
};

}  // namespace facula::data
