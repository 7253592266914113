// Tape archives: ustar, GNU's and pax' extensions for long names and large sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "io/bounded.h"

namespace facula::io {

/// One file of an archive. The bytes are those of the archive, not a copy.
struct TarMember {
  std::string name;
  std::span<const uint8_t> bytes;
};

/// Goes through the regular files of an archive in memory (decompress it first). Nothing is written
/// to disk, so a member's name is no more than a name, whatever it points to. Folders, links and
/// devices are passed over. Memory use is a small multiple of the longest name.
class TarReader {
 public:
  /// `archive` is owned by the caller; `source` names it in messages.
  TarReader(std::span<const uint8_t> archive, std::string source)
      : reader_(archive, std::move(source)) {}

  /// The next file, or nothing at the end. Throws IoError for an archive that is damaged or
  /// truncated (the blocks of zeros at its end are missing), and for sparse files.
  std::optional<TarMember> next();

 private:
  struct Header;
  /// What pax and GNU headers say about the member that follows them.
  struct Extension {
    std::optional<std::string> name;
    std::optional<uint64_t> size;
  };

  std::optional<Header> read_header();
  std::span<const uint8_t> read_data(uint64_t size);
  Extension parse_pax(std::span<const uint8_t> records) const;
  [[noreturn]] void fail_damaged(const char* what) const;

  BoundedReader reader_;
};

}  // namespace facula::io
