// For fuzz targets of files that are zip archives.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "io/archives/zip_records.h"

namespace facula::io {

/// The input with the checksums of stored members made right, or hardly any that is changed would
/// come further.
inline std::vector<uint8_t> with_right_checksums(const uint8_t* data, size_t size) {
  constexpr size_t kCentralSize = 46;
  std::vector<uint8_t> file(data, data + size);
  const auto field = [&](size_t at, size_t bytes) {
    size_t value = 0;
    std::memcpy(&value, file.data() + at, bytes);
    return value;
  };
  for (size_t central = 0; central + kCentralSize <= size; ++central) {
    if (field(central, 4) != kZipCentralSignature || field(central + 10, 2) != kZipStored) continue;
    const size_t packed = field(central + 20, 4), local = field(central + 42, 4);
    if (local + kZipLocalSize > size || field(local, 4) != kZipLocalSignature) continue;
    const size_t begin = local + kZipLocalSize + field(local + 26, 2) + field(local + 28, 2);
    if (begin > size || packed > size - begin) continue;
    const auto sum = static_cast<uint32_t>(::crc32_z(0, file.data() + begin, packed));
    std::memcpy(file.data() + central + 16, &sum, sizeof sum);
    std::memcpy(file.data() + local + 14, &sum, sizeof sum);
  }
  return file;
}

}  // namespace facula::io
