// The IDX format of MNIST and its relatives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace facula::io {

/// An array of unsigned bytes in row-major order: labels [N], images [N, height, width].
struct IdxArray {
  std::vector<int64_t> dims;
  std::vector<uint8_t> bytes;
};

/// Parses an IDX file (two zero bytes, the type 0x08, the rank 1 to 3, the dimensions as big-endian
/// 32-bit numbers, the data; http://yann.lecun.com/exdb/mnist). Throws IoError unless the
/// dimensions account for every byte. `source` names the bytes in messages.
IdxArray parse_idx(std::span<const uint8_t> file, const std::string& source);

/// Reads an IDX file, compressed or not, of at most `max_bytes` uncompressed bytes.
IdxArray read_idx(const std::string& path, size_t max_bytes = size_t{1} << 30);

}  // namespace facula::io
