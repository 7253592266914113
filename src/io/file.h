// Files and folders: descriptors that close themselves, read-only mappings, bounded reads, durable
// folders, and the system calls that change files.
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace facula::io {

/// The system calls that change files, as those who must not lose any make them (AtomicFile, the
/// folder of checkpoints). Tests replace entries to inject failures and crashes.
struct SystemCalls {
  int (*openat)(int folder, const char* name, int flags, mode_t mode);
  ssize_t (*write)(int file, const void* bytes, size_t count);
  int (*fsync)(int file);
  int (*renameat)(int old_folder, const char* old_name, int new_folder, const char* new_name);
  int (*unlinkat)(int folder, const char* name, int flags);
  int (*mkdirat)(int folder, const char* name, mode_t mode);
  int (*flock)(int file, int operation);
};
extern SystemCalls system_calls;

/// The result of `call`, made again as long as a signal interrupts it.
template <class Call>
auto retry_interrupted(Call&& call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

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

/// Opens `path` for reading, with further flags of open(2); throws IoError.
FileDescriptor open_for_reading(const std::string& path, int flags = 0);

/// Whether `path` is a regular file. Throws IoError where that cannot be told: in a folder that may
/// not be searched, or for a name that is too long.
bool is_file(const std::string& path);

/// fsync: makes the content of a file, or the names in a folder, durable. `action` and `path` only
/// word the IoError of a failure.
void flush(const FileDescriptor& file, std::string_view action, const std::string& path);

/// Makes the folder `path`, durably, in one that is there; nothing if it is there already. Throws
/// IoError.
void make_folder(const std::string& path);

/// Makes `path` and the folders above it, durably, where they are missing. Throws IoError.
void make_folders(const std::string& path);

/// The names of what is in `folder`, in no order; none if there is no such folder. Throws IoError.
std::vector<std::string> names_in(const std::string& folder);

/// Writes all of `bytes`, however few the system takes at a time and however often a signal
/// interrupts it. `path` only names the file in the IoError of a failure, which a file beyond the
/// limit on sizes is, too: SIGXFSZ does not get through.
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
  /// Throws IoError if `path` is missing, unreadable or not a regular file, and OutOfMemory if
  /// there are no addresses for it.
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
/// `max_bytes` bytes; a regular file that is too large is refused before anything is read. The
/// memory of `reused`, whatever it holds, serves the result.
std::vector<uint8_t> read_file(const std::string& path, size_t max_bytes,
                               std::vector<uint8_t> reused = {});

}  // namespace facula::io
