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

constexpr std::string_view kTemporaryPrefix = ".facula-", kTemporarySuffix = ".tmp";

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return path.substr(0, slash + 1);
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
  if (!temporary_name_.empty()) system_calls.unlinkat(folder_.get(), temporary_name_.c_str(), 0);
}

void AtomicFile::create_temporary() {
  static std::atomic<uint64_t> counter{0};
  while (true) {
    std::string name =
        fmt::format("{}{}-{}{}", kTemporaryPrefix, ::getpid(), counter++, kTemporarySuffix);
    const int descriptor = system_calls.openat(folder_.get(), name.c_str(),
                                               O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
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
  const int renamed = retry_interrupted([this] {
    return system_calls.renameat(folder_.get(), temporary_name_.c_str(), folder_.get(),
                                 name_.c_str());
  });
  if (renamed != 0) fail_system("replace", path_, errno);
  temporary_name_.clear();
  flush(folder_, "flush the folder of the replaced", path_);
}

int remove_temporaries(const std::string& folder) {
  int removed = 0;
  const std::string prefix = folder + "/";
  for (const std::string& name : names_in(folder)) {
    if (!name.starts_with(kTemporaryPrefix) || !name.ends_with(kTemporarySuffix)) continue;
    removed += system_calls.unlinkat(AT_FDCWD, (prefix + name).c_str(), 0) == 0;
  }
  return removed;
}

void write_file(const std::string& path, std::span<const uint8_t> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace facula::io
