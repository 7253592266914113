// Zip archives (PKWARE's APPNOTE 6.3), as far as model files need them: stored and deflated
// members, zip64; no encryption, no archives in several parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/atomic_file.h"

namespace facula::io {

struct ZipMember {
  std::string name;
  bool deflated = false;
  uint64_t size = 0;  ///< of the content
  uint32_t crc = 0;
  std::span<const uint8_t>
      packed;  ///< the bytes in the archive; the content itself unless deflated
};

/// Reads an archive that lies in memory, normally a mapping, which must outlive this object. The
/// constructor takes the members from the central directory and throws IoError unless the archive
/// is what every reader would take it for: nothing before or after it, one end record, local
/// headers that agree with the directory, members that neither overlap nor share a name, none that
/// is encrypted or packed in another way, and sizes that deflate can reach. Memory use is a small
/// multiple of the directory's size.
class ZipReader {
 public:
  /// `source` names the archive in messages.
  ZipReader(std::span<const uint8_t> archive, std::string source);

  /// In the order of the central directory. Names that end in '/' are folders.
  const std::vector<ZipMember>& members() const { return members_; }
  /// Null if there is none of that name.
  const ZipMember* find(std::string_view name) const;

  /// The content of a member that is not deflated, where it lies. Throws IoError if it is damaged.
  std::span<const uint8_t> view(const ZipMember& member) const;
  /// The content. Throws IoError if it is damaged or larger than `max_bytes`.
  std::vector<uint8_t> read(const ZipMember& member, uint64_t max_bytes) const;
  /// Fills `destination`, which has the member's size. Throws IoError if the content is damaged.
  void read_into(const ZipMember& member, std::span<uint8_t> destination) const;

 private:
  void check_unique_names();
  void check_crc(uint32_t crc, const ZipMember& member) const;

  std::string source_;
  std::vector<ZipMember> members_;
  std::vector<size_t> by_name_;  // Indices into members_, sorted by name.
};

/// Whether `file` begins with a member or is an empty archive.
bool is_zip(std::span<const uint8_t> file);

/// Writes an archive of stored members. Their content begins at multiples of 64 bytes, so that it
/// can be mapped, as torch.save does it; the padding is an extra field of the local header.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}

  /// Throws ValueError for a name of more than 65535 bytes.
  void add(std::string_view name, std::span<const uint8_t> content);
  void add(std::string_view name, std::string_view content);
  /// Writes the directory; the last call, before the file is committed.
  void finish();

 private:
  struct Written {
    std::string name;
    uint64_t size, offset;
    uint32_t crc;
  };
  void write(std::string_view bytes);

  AtomicFile& file_;
  uint64_t offset_ = 0;
  std::vector<Written> members_;
};

}  // namespace facula::io
