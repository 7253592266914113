#include "io/partial_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <utility>

#include <fmt/format.h>

namespace facula::io {
namespace {

constexpr int kFlags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC;
constexpr mode_t kMode = 0666;

struct stat status_of(const FileDescriptor& file, const std::string& path) {
  struct stat status;
  if (::fstat(file.get(), &status) != 0) fail_system("examine", path, errno);
  return status;
}

bool is_at(const struct stat& opened, const std::string& path) {
  struct stat named;
  return ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

/// Those that processes which were killed have left beside `path`: nothing has come for a day.
void remove_leftovers(const std::string& path) {
  constexpr std::time_t kDay = 24 * 60 * 60;
  const std::size_t name = path.rfind('/') + 1;
  const std::string folder = name == 0 ? "." : path.substr(0, name);
  for (const std::string& one : names_in(folder)) {
    if (!one.starts_with(path.substr(name) + "-")) continue;
    struct stat status;
    const std::string leftover = folder + "/" + one;
    if (::stat(leftover.c_str(), &status) != 0) continue;
    if (status.st_mtime < std::time(nullptr) - kDay) ::unlink(leftover.c_str());
  }
}

}  // namespace

bool is_at(const FileDescriptor& opened, const std::string& path) {
  return is_at(status_of(opened, path), path);
}

PartialFile::PartialFile(std::string path) : path_(std::move(path)) {
  locked_ = open_locked();
  if (!locked_) open_own();
}

PartialFile::~PartialFile() {
  struct stat status;
  const bool useless =
      ::fstat(file_.get(), &status) == 0 && (!worth_keeping() || status.st_size == 0);
  // Others may have a file of that name by now.
  if (useless && is_at(status, path_)) remove();
  // Another process that was forked meanwhile would keep the lock.
  if (locked_) system_calls.flock(file_.get(), LOCK_UN);
}

bool PartialFile::open_locked() {
  while (true) {
    const int descriptor = ::open(path_.c_str(), kFlags, kMode);
    if (descriptor < 0) fail_system("open", path_, errno);
    file_ = FileDescriptor(descriptor);
    const int result = retry_interrupted([&] { return system_calls.flock(descriptor, LOCK_EX); });
    if (result != 0) {
      const int error = errno;
      if (size() == 0) remove();
      if (error == ENOSYS || error == ENOLCK || error == EOPNOTSUPP) return false;
      fail_system("lock", path_, error);
    }
    // Whoever had the lock has renamed the file, unless it is still the one of that name.
    if (is_at(file_, path_)) return true;
    file_.close();
  }
}

void PartialFile::open_own() {
  static std::atomic<std::uint64_t> counter{0};
  const std::string shared = path_;
  remove_leftovers(shared);
  while (true) {
    path_ = fmt::format("{}-{}-{}", shared, ::getpid(), counter++);
    const int descriptor = ::open(path_.c_str(), kFlags | O_EXCL, kMode);
    if (descriptor >= 0) {
      file_ = FileDescriptor(descriptor);
      return;
    }
    // Of another machine, or of a process that was killed: take the next number.
    if (errno != EEXIST && errno != EINTR) fail_system("open", path_, errno);
  }
}

std::uint64_t PartialFile::size() const {
  return static_cast<std::uint64_t>(status_of(file_, path_).st_size);
}

void PartialFile::clear() {
  if (::ftruncate(file_.get(), 0) != 0) fail_system("truncate", path_, errno);
}

void PartialFile::remove() { ::unlink(path_.c_str()); }

void PartialFile::rename_to(const std::string& target) {
  flush(file_, "flush", path_);
  if (::rename(path_.c_str(), target.c_str()) != 0) fail_system("replace", target, errno);
}

}  // namespace facula::io
