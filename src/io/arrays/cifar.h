// The binary versions of CIFAR-10 and CIFAR-100 (https://www.cs.toronto.edu/~kriz/cifar.html).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace facula::io {

/// CIFAR-10 records are a label and an image; CIFAR-100 records a coarse label, a fine label and an
/// image.
enum class CifarKind { kCifar10, kCifar100 };

/// N records, taken apart.
struct CifarRecords {
  std::vector<uint8_t> images;         ///< [N, 3, 32, 32]: red, green, blue planes.
  std::vector<uint8_t> labels;         ///< [N]: 0 to 9, or the fine label, 0 to 99.
  std::vector<uint8_t> coarse_labels;  ///< [N] for CIFAR-100: 0 to 19; empty for CIFAR-10.
};

/// Parses one batch file. Throws IoError if it is empty, if it is not a whole number of records or
/// if a label is out of range. `source` names the bytes in messages.
CifarRecords parse_cifar(std::span<const uint8_t> file, CifarKind kind, const std::string& source);

/// Reads a batch file, compressed or not, of at most `max_bytes` uncompressed bytes.
CifarRecords read_cifar(const std::string& path, CifarKind kind,
                        size_t max_bytes = size_t{1} << 30);

}  // namespace facula::io
