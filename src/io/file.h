// Reading whole files: descriptors that close themselves, read-only mappings, bounded reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace facula::io {

/// Throws IoError "cannot <action> '<path>': <reason>; <remedy>" for the errno value `error`.
[[noreturn]] void fail_system(std::string_view action, const std::string& path, int error);

/// An open file descriptor, closed on destruction.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  ~FileDescriptor() { close(); }
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;

  int get() const { return descriptor_; }
  void close();

 private:
  int descriptor_ = -1;
};

/// Opens `path` for reading; throws IoError.
FileDescriptor open_for_reading(const std::string& path);

/// Writes all of `bytes`, however few the system takes at a time and however often a signal
/// interrupts it. `path` only names the file in the IoError of a failure.
void write_all(int descriptor, std::span<const uint8_t> bytes, const std::string& path);

/// Whether the memory of a mapping may be written. What is written stays in this process: such a
/// page is copied first, and the file does not change.
enum class Mapping { read_only, copy_on_write };

/// A regular file mapped into memory. Pages are loaded when first touched, so mapping a large file
/// costs neither time nor memory. The file must not shrink while it is mapped: the system answers
/// access beyond its new end with SIGBUS. Files replaced by AtomicFile are safe, because the
/// mapping keeps the old file alive.
class MappedFile {
 public:
  /// Throws IoError if `path` is missing, unreadable or not a regular file.
  explicit MappedFile(std::string path, Mapping mapping = Mapping::read_only);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const uint8_t> bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::span<const uint8_t> bytes_;
};

/// Reads a whole file (or pipe) into memory. Throws IoError if it cannot be read or holds more than
/// `max_bytes` bytes; a regular file that is too large is refused before anything is read.
std::vector<uint8_t> read_file(const std::string& path, size_t max_bytes);

}  // namespace facula::io
