// A file that arrives little by little and outlives the process that receives it.
#pragma once

#include <cstdint>
#include <string>

#include "io/file.h"

namespace facula::io {

/// Whether `path` still names the file that was opened, and not one that has taken its place.
/// Throws IoError.
bool is_at(const FileDescriptor& opened, const std::string& path);

/// What has arrived of a file, locked against other processes and threads. Where the file system
/// has no locks, it is a file of its own, which nobody goes on with. Members throw IoError.
class PartialFile {
 public:
  /// Waits for others who have the same.
  explicit PartialFile(std::string path);
  /// Removes what is of no use to a later attempt.
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const FileDescriptor& file() const { return file_; }
  const std::string& path() const { return path_; }
  std::uint64_t size() const;

  void clear();
  void remove();
  /// Whether a later attempt may go on with what is there; at first it may.
  void set_worth_keeping(bool worth_keeping) { worth_keeping_ = worth_keeping; }
  bool worth_keeping() const { return worth_keeping_ && locked_; }

  /// Makes the content durable under another name.
  void rename_to(const std::string& target);

 private:
  /// False if the file system has no locks.
  bool open_locked();
  void open_own();

  std::string path_;
  FileDescriptor file_;
  bool locked_ = true, worth_keeping_ = true;
};

}  // namespace facula::io
