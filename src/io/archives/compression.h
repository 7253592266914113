// Transparent decompression of gzip and xz.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace facula::io {

/// Decompresses gzip (RFC 1952, any number of members) or xz (any number of streams), recognised
/// by their first bytes; other data is returned as it is. `source` names the data in messages.
/// Memory grows with the output, to at most `max_bytes`; xz may use 128 MiB more for its window.
/// Throws IoError if the data is truncated or damaged or the output would exceed `max_bytes`,
/// OutOfMemory if a decoder gets no memory.
std::vector<uint8_t> decompress(std::span<const uint8_t> data, size_t max_bytes,
                                const std::string& source);

/// The first `count` bytes of that, or all if there are fewer; what follows is not looked at.
std::vector<uint8_t> decompress_start(std::span<const uint8_t> data, size_t count,
                                      const std::string& source);

/// Reads and decompresses a file; see above.
std::vector<uint8_t> decompress_file(const std::string& path, size_t max_bytes);

/// Reads a file as it is, if it may hold up to `max_bytes` when decompressed.
std::vector<uint8_t> read_compressed(const std::string& path, size_t max_bytes);

}  // namespace facula::io
