// Replacing a file so that, whatever happens, either the old or the new content is there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/file.h"

namespace facula::io {

/// Writes to a temporary file in the folder of `path`; commit() makes it durable and renames it to
/// `path`. Without commit(), or if anything fails, the temporary is removed and an existing file
/// stays untouched. (A process killed while writing leaves ".facula-<pid>-<n>.tmp" behind, which
/// may be deleted.) A replaced file's permissions are kept; a symbolic link is itself replaced.
class AtomicFile {
 public:
  /// Throws IoError if the folder is missing or unwritable, or if `path` is something other than a
  /// regular file or link.
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends; throws IoError.
  void write(std::span<const uint8_t> bytes);
  void write(std::string_view text);

  /// Puts the file in place; the last call on this object. Throws IoError; only if the message says
  /// that the folder cannot be flushed has the file been replaced already.
  void commit();

 private:
  void create_temporary();

  std::string path_;
  std::string name_;            // The last component of path_, relative to folder_.
  std::string temporary_name_;  // Relative to folder_; empty once there is nothing to remove.
  FileDescriptor folder_;
  FileDescriptor file_;
};

/// Removes what killed processes have left of AtomicFiles in `folder`, and says how many. Nobody
/// may be writing there.
int remove_temporaries(const std::string& folder);

/// Replaces the content of `path` by `bytes`, atomically and durably.
void write_file(const std::string& path, std::span<const uint8_t> bytes);

}  // namespace facula::io
