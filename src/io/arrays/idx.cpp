#include "io/arrays/idx.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "io/archives/compression.h"
#include "io/bounded.h"

namespace facula::io {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr int kMaxRank = 3;
constexpr size_t kMaxHeader = 4 + 4 * kMaxRank;

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

struct Header {
  std::vector<int64_t> dims;
  std::optional<uint64_t> count;  // nothing if it overflows
};

Header read_header(BoundedReader& reader) {
  Header header;
  uint64_t count = 1;
  bool overflow = false;
  for (int i = 0, rank = read_rank(reader); i < rank; ++i) {
    const uint32_t dim = reader.u32_be("an IDX dimension");
    overflow |= __builtin_mul_overflow(count, uint64_t{dim}, &count);
    header.dims.push_back(dim);
  }
  if (!overflow) header.count = count;
  return header;
}

}  // namespace

IdxArray parse_idx(std::span<const uint8_t> file, const std::string& source) {
  BoundedReader reader(file, source);
  const Header header = read_header(reader);
  check<IoError>(
      header.count == reader.remaining(),
      "{}: IDX dimensions [{}] do not match the {} bytes of data that follow; the file is "
      "truncated or damaged, get it again",
      source, fmt::join(header.dims, ", "), reader.remaining());
  const auto data = reader.take(reader.remaining(), "IDX data");
  return {header.dims, {data.begin(), data.end()}};
}

IdxArray read_idx(const std::string& path, size_t max_bytes) {
  const auto file = read_compressed(path, max_bytes);
  const auto start = decompress_start(file, std::min(max_bytes, kMaxHeader), path);
  BoundedReader reader(start, path);
  const Header header = read_header(reader);
  // One byte more than there should be tells that there is too much.
  const size_t size = start.size() - reader.remaining() + 1;
  const bool fits = header.count && *header.count <= max_bytes - std::min(max_bytes, size);
  return parse_idx(
      fits ? decompress_start(file, size + *header.count, path) : decompress(file, max_bytes, path),
      path);
}

}  // namespace facula::io
