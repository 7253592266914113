#include "io/arrays/idx.h"

#include <fmt/ranges.h>

#include "base/check.h"
#include "io/archives/compression.h"
#include "io/bounded.h"

namespace facula::io {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr int kMaxRank = 3;

/// Reads the magic number and returns the rank it contains.
int read_rank(BoundedReader& reader) {
  const uint32_t magic = reader.u32_be("the IDX magic number");
  const uint32_t type = magic >> 8;
  const auto rank = static_cast<int>(magic & 0xff);
  check<IoError>(
      type == kUnsignedByte,
      "{}: the first four bytes are {:#010x}, expected 0x000008 and the rank: not an IDX "
      "file of unsigned bytes; check the path",
      reader.source(), magic);
  check<IoError>(rank >= 1 && rank <= kMaxRank,
                 "{}: an IDX array of rank {}, expected 1 to {}; check the path", reader.source(),
                 rank, kMaxRank);
  return rank;
}

}  // namespace

IdxArray parse_idx(std::span<const uint8_t> file, const std::string& source) {
  BoundedReader reader(file, source);
  const int rank = read_rank(reader);
  IdxArray array;
  uint64_t count = 1;
  bool overflow = false;
  for (int i = 0; i < rank; ++i) {
    const uint32_t dim = reader.u32_be("an IDX dimension");
    overflow |= __builtin_mul_overflow(count, uint64_t{dim}, &count);
    array.dims.push_back(dim);
  }
  check<IoError>(
      !overflow && count == reader.remaining(),
      "{}: IDX dimensions [{}] do not match the {} bytes of data that follow; the file is "
      "truncated or damaged, get it again",
      source, fmt::join(array.dims, ", "), reader.remaining());
  const auto data = reader.take(count, "IDX data");
  array.bytes.assign(data.begin(), data.end());
  return array;
}

IdxArray read_idx(const std::string& path, size_t max_bytes) {
  return parse_idx(decompress_file(path, max_bytes), path);
}

}  // namespace facula::io
