#include "io/images/exif.h"

#include <cstddef>

namespace facula::io {
namespace {

constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kShort = 3, kLong = 4;
constexpr size_t kEntryBytes = 12;

class Tiff {
 public:
  explicit Tiff(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  /// Reads the byte order and tells whether there is one.
  bool start() {
    if (bytes_.size() < 8) return false;
    little_ = bytes_[0] == 'I' && bytes_[1] == 'I';
    return (little_ || (bytes_[0] == 'M' && bytes_[1] == 'M')) && number(2, 2) == 42;
  }
  bool has(size_t offset, size_t count) const {
    return offset <= bytes_.size() && count <= bytes_.size() - offset;
  }
  uint32_t number(size_t offset, size_t count) const {
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i)
      value = value << 8 | bytes_[offset + (little_ ? count - 1 - i : i)];
    return value;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool little_ = false;
};

}  // namespace

int exif_orientation(std::span<const uint8_t> bytes) {
  Tiff tiff(bytes);
  if (!tiff.start()) return 1;
  const size_t directory = tiff.number(4, 4);
  if (!tiff.has(directory, 2)) return 1;
  const size_t entries = tiff.number(directory, 2);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (!tiff.has(entry, kEntryBytes)) return 1;
    if (tiff.number(entry, 2) != kOrientationTag) continue;
    const uint32_t type = tiff.number(entry + 2, 2);
    if (type != kShort && type != kLong) return 1;
    const uint32_t value = tiff.number(entry + 8, type == kShort ? 2 : 4);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace facula::io
