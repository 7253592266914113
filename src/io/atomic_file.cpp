#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/check.h"

namespace facula::io {
namespace {

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return path.substr(0, slash + 1);
}

void flush(const FileDescriptor& file, std::string_view action, const std::string& path) {
  int result;
  do {
    result = ::fsync(file.get());
  } while (result != 0 && errno == EINTR);
  // Some file systems cannot flush folders and say so with EINVAL; there is nothing better to do.
  if (result != 0 && errno != EINVAL) fail_system(action, path, errno);
}

/// The mode of the file that is about to be replaced; nothing if there is none.
std::optional<mode_t> existing_mode(const FileDescriptor& folder, const std::string& name,
                                    const std::string& path) {
  struct stat status;
  if (::fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return std::nullopt;
    fail_system("examine", path, errno);
  }
  if (S_ISLNK(status.st_mode)) return std::nullopt;
  // Renaming over a device node such as /dev/null would replace it.
  check<IoError>(S_ISREG(status.st_mode),
                 "cannot replace '{}': not a regular file; give the path of a file", path);
  return status.st_mode & 07777;
}

}  // namespace

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), folder_(open_for_reading(folder_of(path_))) {
  // Everything below is relative to the open folder, so that neither chdir() nor a renamed parent
  // can make the temporary and the final name fall into different folders.
  name_ = path_.substr(path_.rfind('/') + 1);
  check<IoError>(!name_.empty() && name_.find('\0') == std::string::npos,
                 "cannot write '{}': it does not end in a file name; add one", path_);
  const auto mode = existing_mode(folder_, name_, path_);
  create_temporary();
  // A failure is ignored: some file systems know no permissions.
  if (mode) ::fchmod(file_.get(), *mode);
}

AtomicFile::~AtomicFile() {
  if (!temporary_name_.empty()) ::unlinkat(folder_.get(), temporary_name_.c_str(), 0);
}

void AtomicFile::create_temporary() {
  static std::atomic<uint64_t> counter{0};
  while (true) {
    std::string name = fmt::format(".facula-{}-{}.tmp", ::getpid(), counter++);
    const int descriptor =
        ::openat(folder_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) {
      file_ = FileDescriptor(descriptor);
      temporary_name_ = std::move(name);
      return;
    }
    // A leftover of a killed process that had the same id: take the next number.
    if (errno != EEXIST && errno != EINTR) fail_system("create a temporary file for", path_, errno);
  }
}

void AtomicFile::write(std::span<const uint8_t> bytes) { write_all(file_.get(), bytes, path_); }

void AtomicFile::write(std::string_view text) {
  write({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

void AtomicFile::commit() {
  check<IoError>(!temporary_name_.empty(), "cannot commit '{}' twice; write a new AtomicFile",
                 path_);
  flush(file_, "flush", path_);
  file_.close();
  if (::renameat(folder_.get(), temporary_name_.c_str(), folder_.get(), name_.c_str()) != 0)
    fail_system("replace", path_, errno);
  temporary_name_.clear();
  flush(folder_, "flush the folder of the replaced", path_);
}

void write_file(const std::string& path, std::span<const uint8_t> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace facula::io
