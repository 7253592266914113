// Makes zip archives for tests, wrong ones too.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace facula::io {

/// One member; what is not set is right.
struct ZipPart {
  std::string name;
  std::string content;
  bool deflate = false;
  uint16_t flags = 0;
  int method = -1;
  int64_t size = -1;            // claimed in both headers
  std::string local_name = {};  // in the local header, if it differs
  int64_t offset = -1;
};

inline std::string little_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

/// Deflate without a header.
inline std::string deflated(std::string_view content) {
  z_stream stream{};
  ::deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(::deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ::deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

inline std::string zip_end(uint64_t count, uint64_t size, uint64_t offset,
                           const std::string& comment = "") {
  return "PK\5\6" + little_endian(0, 4) + little_endian(count, 2) + little_endian(count, 2) +
         little_endian(size, 4) + little_endian(offset, 4) + little_endian(comment.size(), 2) +
         comment;
}

inline std::string zip_file(const std::vector<ZipPart>& parts, const std::string& comment = "") {
  std::string archive, directory;
  for (const ZipPart& part : parts) {
    const std::string packed = part.deflate ? deflated(part.content) : part.content;
    const auto crc =
        ::crc32_z(0, reinterpret_cast<const Bytef*>(part.content.data()), part.content.size());
    const uint64_t size = part.size < 0 ? part.content.size() : static_cast<uint64_t>(part.size);
    const uint64_t method = part.method < 0 ? 8 * part.deflate : static_cast<uint64_t>(part.method);
    const std::string description = little_endian(20, 2) + little_endian(part.flags, 2) +
                                    little_endian(method, 2) + little_endian(0, 4) +
                                    little_endian(crc, 4) + little_endian(packed.size(), 4) +
                                    little_endian(size, 4);
    const uint64_t offset = part.offset < 0 ? archive.size() : static_cast<uint64_t>(part.offset);
    const std::string& local = part.local_name.empty() ? part.name : part.local_name;
    archive += "PK\3\4" + description + little_endian(local.size(), 2) + little_endian(0, 2) +
               local + packed;
    directory += "PK\1\2" + little_endian(20, 2) + description +
                 little_endian(part.name.size(), 2) + std::string(12, '\0') +
                 little_endian(offset, 4) + part.name;
  }
  return archive + directory + zip_end(parts.size(), directory.size(), archive.size(), comment);
}

}  // namespace facula::io
