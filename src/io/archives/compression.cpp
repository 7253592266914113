#include "io/archives/compression.h"

#include <lzma.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"
#include "io/file.h"

namespace facula::io {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr std::array<uint8_t, 2> kGzipMagic = {0x1f, 0x8b};
constexpr std::array<uint8_t, 6> kXzMagic = {0xfd, '7', 'z', 'X', 'Z', 0};

/// `xz -9`, the largest preset, needs 65 MiB.
constexpr uint64_t kXzMemoryLimit = uint64_t{128} << 20;

bool starts_with(Bytes data, Bytes magic) {
  return data.size() >= magic.size() && std::equal(magic.begin(), magic.end(), data.begin());
}

[[noreturn]] void fail_truncated(const std::string& source, const char* format, size_t size) {
  fail<IoError>(
      "{}: the {} data ends too early (after {} compressed bytes); the file is truncated, "
      "get it again",
      source, format, size);
}

[[noreturn]] void fail_damaged(const std::string& source, const char* format, size_t offset,
                               const char* reason) {
  fail<IoError>("{}: the {} data is damaged near compressed byte {} ({}); get the file again",
                source, format, offset, reason);
}

[[noreturn]] void fail_memory(const std::string& source) {
  fail<OutOfMemory>("{}: not enough memory to decompress it; free some", source);
}

/// What to do with data beyond the limit.
enum class Excess { refuse, leave };

/// Output that grows geometrically up to a limit.
class Output {
 public:
  Output(size_t compressed_size, size_t max_bytes, Excess excess, const std::string& source)
      : max_bytes_(max_bytes), excess_(excess), source_(source) {
    constexpr size_t kSmallest = 4096;
    bytes_.resize(std::min(max_bytes, std::max(kSmallest, compressed_size)));
  }

  /// Free space for the decoder to write to. At the limit it is a single byte outside the result:
  /// a decoder that is finished leaves it alone, one that uses it has exceeded the limit.
  std::span<uint8_t> space() {
    if (used_ == bytes_.size() && used_ < max_bytes_) {
      const size_t grown = used_ + std::min(used_, max_bytes_ - used_);
      bytes_.reserve(grown);  // resize() alone may reserve beyond the limit.
      bytes_.resize(grown);
    }
    if (used_ == max_bytes_) return {&beyond_, 1};
    return std::span(bytes_).subspan(used_);
  }

  void commit(size_t count) {
    check<IoError>(count <= max_bytes_ - used_,
                   "{}: decompresses to more than the limit of {} bytes; check that it is the file "
                   "you mean, or raise the limit",
                   source_, max_bytes_);
    used_ += count;
  }

  /// Whether nothing more is wanted.
  bool complete() const { return excess_ == Excess::leave && used_ == max_bytes_; }

  std::vector<uint8_t> finish() && {
    bytes_.resize(used_);
    return std::move(bytes_);
  }

 private:
  std::vector<uint8_t> bytes_;
  size_t used_ = 0;
  size_t max_bytes_;
  Excess excess_;
  uint8_t beyond_ = 0;
  const std::string& source_;
};

struct GzipStream : z_stream {
  explicit GzipStream(const std::string& source) : z_stream{} {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(this, kGzipOnly) != Z_OK) fail_memory(source);
  }
  ~GzipStream() { inflateEnd(this); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;
};

/// zlib counts in 32 bits.
uInt clamp_to_uint(size_t size) {
  return static_cast<uInt>(std::min<size_t>(size, std::numeric_limits<uInt>::max()));
}

/// Whether only zeros follow: padding to a whole number of tape blocks, which gzip ignores too.
bool only_padding(Bytes rest) {
  return std::all_of(rest.begin(), rest.end(), [](uint8_t byte) { return byte == 0; });
}

std::vector<uint8_t> gunzip(Bytes data, Output output, const std::string& source) {
  GzipStream stream(source);
  size_t offset = 0;
  while (!output.complete()) {
    const auto space = output.space();
    const uInt input_size = clamp_to_uint(data.size() - offset);
    const uInt output_size = clamp_to_uint(space.size());
    stream.next_in = const_cast<Bytef*>(data.data() + offset);  // zlib does not write to its input.
    stream.avail_in = input_size;
    stream.next_out = space.data();
    stream.avail_out = output_size;
    const int status = inflate(&stream, Z_NO_FLUSH);
    const uInt consumed = input_size - stream.avail_in;
    const uInt produced = output_size - stream.avail_out;
    offset += consumed;
    output.commit(produced);

    const Bytes rest = data.subspan(offset);
    if (status == Z_STREAM_END) {
      if (only_padding(rest)) return std::move(output).finish();
      if (!starts_with(rest, kGzipMagic))
        fail_damaged(source, "gzip", offset, "unknown data after the end");
      inflateReset(&stream);
    } else if (status == Z_MEM_ERROR) {
      fail_memory(source);
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      fail_damaged(source, "gzip", offset, stream.msg ? stream.msg : zError(status));
    } else if (consumed == 0 && produced == 0) {
      fail_truncated(source, "gzip", data.size());
    }
  }
  return std::move(output).finish();
}

struct XzStream : lzma_stream {
  explicit XzStream(const std::string& source) : lzma_stream(LZMA_STREAM_INIT) {
    constexpr uint32_t kFlags = LZMA_CONCATENATED | LZMA_TELL_UNSUPPORTED_CHECK;
    if (lzma_stream_decoder(this, kXzMemoryLimit, kFlags) != LZMA_OK) fail_memory(source);
  }
  ~XzStream() { lzma_end(this); }
  XzStream(const XzStream&) = delete;
  XzStream& operator=(const XzStream&) = delete;
};

const char* describe(lzma_ret status) {
  switch (status) {
    case LZMA_FORMAT_ERROR: return "not an xz stream";
    case LZMA_OPTIONS_ERROR: return "unsupported options";
    case LZMA_UNSUPPORTED_CHECK: return "unsupported integrity check";
    default: return "integrity check failed";
  }
}

std::vector<uint8_t> unxz(Bytes data, Output output, const std::string& source) {
  XzStream stream(source);
  stream.next_in = data.data();
  stream.avail_in = data.size();
  while (!output.complete()) {
    const auto space = output.space();
    stream.next_out = space.data();
    stream.avail_out = space.size();
    const lzma_ret status = lzma_code(&stream, LZMA_FINISH);
    output.commit(space.size() - stream.avail_out);
    switch (status) {
      case LZMA_OK: break;
      case LZMA_STREAM_END: return std::move(output).finish();
      case LZMA_BUF_ERROR: fail_truncated(source, "xz", data.size());
      case LZMA_MEM_ERROR: fail_memory(source);
      case LZMA_MEMLIMIT_ERROR:
        fail<IoError>(
            "{}: decompressing it takes {} MiB, the limit is {} MiB; compress it again "
            "with a smaller window (xz -9 or lower)",
            source, (lzma_memusage(&stream) >> 20) + 1, kXzMemoryLimit >> 20);
      default: fail_damaged(source, "xz", data.size() - stream.avail_in, describe(status));
    }
  }
  return std::move(output).finish();
}

std::vector<uint8_t> decompress(Bytes data, size_t max_bytes, Excess excess,
                                const std::string& source) {
  // A start takes no memory in proportion to the file.
  const size_t expected = excess == Excess::leave ? 0 : data.size();
  if (starts_with(data, kGzipMagic))
    return gunzip(data, Output(expected, max_bytes, excess, source), source);
  if (starts_with(data, kXzMagic))
    return unxz(data, Output(expected, max_bytes, excess, source), source);
  if (excess == Excess::leave) data = data.first(std::min(data.size(), max_bytes));
  check<IoError>(
      data.size() <= max_bytes,
      "{}: holds {} bytes, the limit is {}; check that it is the file you mean, or raise "
      "the limit",
      source, data.size(), max_bytes);
  return {data.begin(), data.end()};
}

}  // namespace

std::vector<uint8_t> decompress(Bytes data, size_t max_bytes, const std::string& source) {
  return decompress(data, max_bytes, Excess::refuse, source);
}

std::vector<uint8_t> decompress_start(Bytes data, size_t count, const std::string& source) {
  return decompress(data, count, Excess::leave, source);
}

std::vector<uint8_t> read_compressed(const std::string& path, size_t max_bytes) {
  // Data that does not compress grows a little: by less than 1/8 and 64 KiB in either format.
  const size_t slack = max_bytes / 8 + 64 * 1024;
  const size_t max_compressed =
      max_bytes + std::min(slack, std::numeric_limits<size_t>::max() - max_bytes);
  return read_file(path, max_compressed);
}

std::vector<uint8_t> decompress_file(const std::string& path, size_t max_bytes) {
  auto bytes = read_compressed(path, max_bytes);
  if (!starts_with(bytes, kGzipMagic) && !starts_with(bytes, kXzMagic) && bytes.size() <= max_bytes)
    return bytes;
  return decompress(bytes, max_bytes, path);
}

}  // namespace facula::io
