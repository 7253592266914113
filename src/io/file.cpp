#include "io/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/signals.h"

namespace facula::io {
namespace {

std::string_view remedy_for(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR: return "check the path";
    case EEXIST: return "something else has that name; choose another";
    case EISDIR: return "give the path of a file inside that folder";
    case EACCES:
    case EPERM:
    case EROFS: return "check the permissions of the file and of its folders";
    case ENOSPC:
    case EDQUOT: return "free disk space or choose another folder";
    case EFBIG: return "raise the file size limit (ulimit -f) or write a smaller file";
    case EMFILE:
    case ENFILE: return "close other files or raise the limit (ulimit -n)";
    case ENAMETOOLONG: return "choose a shorter name";
    case ENOMEM: return "free memory or raise the limit on address space (ulimit -v)";
    default: return "check the disk and the system log";
  }
}

std::string problem_of(std::string_view action, const std::string& path, int error) {
  return fmt::format("cannot {} '{}': {}; {}", action, path, std::generic_category().message(error),
                     remedy_for(error));
}

struct stat status_of(const FileDescriptor& file, const std::string& path) {
  struct stat status;
  if (::fstat(file.get(), &status) != 0) fail_system("examine", path, errno);
  return status;
}

/// Reads up to `size` bytes; fewer only at the end of the file.
size_t read_fully(const FileDescriptor& file, uint8_t* destination, size_t size,
                  const std::string& path) {
  size_t done = 0;
  while (done < size) {
    const ssize_t count = ::read(file.get(), destination + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_system("read", path, errno);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

/// The system would silently stop at an embedded NUL and take some other file.
void check_no_nul(const std::string& path) {
  check<IoError>(path.find('\0') == std::string::npos,
                 "cannot open a path with a NUL character at position {}; check the path",
                 path.find('\0'));
}

int open_at(int folder, const char* name, int flags, mode_t mode) {
  return ::openat(folder, name, flags, mode);
}

}  // namespace

SystemCalls system_calls = {open_at, ::write, ::fsync, ::renameat, ::unlinkat, ::mkdirat, ::flock};

void fail_system(std::string_view action, const std::string& path, int error) {
  fail<IoError>("{}", problem_of(action, path, error));
}

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void FileDescriptor::close() {
  // Not retried on EINTR: Linux releases the descriptor in any case.
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

FileDescriptor open_for_reading(const std::string& path, int flags) {
  check_no_nul(path);
  const int descriptor = retry_interrupted(
      [&] { return system_calls.openat(AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC | flags, 0); });
  if (descriptor < 0) fail_system("open", path, errno);
  return FileDescriptor(descriptor);
}

bool is_file(const std::string& path) {
  check_no_nul(path);
  struct stat status;
  if (::stat(path.c_str(), &status) == 0) return S_ISREG(status.st_mode);
  if (errno != ENOENT && errno != ENOTDIR) fail_system("examine", path, errno);
  return false;
}

void flush(const FileDescriptor& file, std::string_view action, const std::string& path) {
  const int result = retry_interrupted([&] { return system_calls.fsync(file.get()); });
  // Some file systems cannot flush folders and say so with EINVAL; there is nothing better to do.
  if (result != 0 && errno != EINVAL) fail_system(action, path, errno);
}

void make_folder(const std::string& path) {
  if (system_calls.mkdirat(AT_FDCWD, path.c_str(), 0777) != 0) {
    const int reason = errno;
    std::error_code error;
    if (reason == EEXIST && std::filesystem::is_directory(path, error)) return;
    fail_system("create the folder", path, reason);
  }
  const auto above = std::filesystem::path(path).parent_path();
  flush(open_for_reading(above.empty() ? "." : above), "flush the folder of", path);
}

void make_folders(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  // Part by part as given: `..` behind a symbolic link is not the folder where the link lies.
  fs::path folder;
  for (const fs::path& part : fs::absolute(fs::path(path), error)) {
    if (part.empty()) continue;  // where a slash ends the path
    folder /= part;
    if (!fs::is_directory(folder, error)) make_folder(folder);
  }
}

std::vector<std::string> names_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != end(entry); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  const bool missing = error == std::errc::no_such_file_or_directory;
  if (error && !missing) fail_system("list the folder", folder, error.value());
  return names;
}

void write_all(int descriptor, std::span<const uint8_t> bytes, const std::string& path) {
  const base::WriteSignalsHeld held;
  while (!bytes.empty()) {
    const ssize_t count = retry_interrupted(
        [&] { return system_calls.write(descriptor, bytes.data(), bytes.size()); });
    if (count < 0) fail_system("write", path, errno);
    if (count == 0) fail_system("write", path, EIO);  // or this would never end
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

MappedFile::MappedFile(std::string path, Mapping mapping) : path_(std::move(path)) {
  // Opening a pipe must not wait for who writes to it.
  const FileDescriptor file = open_for_reading(path_, O_NONBLOCK);
  const struct stat status = status_of(file, path_);
  check<IoError>(S_ISREG(status.st_mode),
                 "cannot map '{}': not a regular file; give the path of a file on disk", path_);
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return;  // mmap refuses empty mappings.
  const bool writable = mapping == Mapping::copy_on_write;
  // Pages that will be written need memory, the others do not: reserve none in advance.
  void* address = ::mmap(nullptr, size, PROT_READ | (writable ? PROT_WRITE : 0),
                         MAP_PRIVATE | (writable ? MAP_NORESERVE : 0), file.get(), 0);
  // Nothing is wrong with the file then.
  check<OutOfMemory>(address != MAP_FAILED || errno != ENOMEM, "{}",
                     problem_of("map", path_, ENOMEM));
  if (address == MAP_FAILED) fail_system("map", path_, errno);
  bytes_ = {static_cast<const uint8_t*>(address), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

std::vector<uint8_t> read_file(const std::string& path, size_t max_bytes,
                               std::vector<uint8_t> reused) {
  const FileDescriptor file = open_for_reading(path);
  const struct stat status = status_of(file, path);
  if (S_ISDIR(status.st_mode)) fail_system("read", path, EISDIR);
  const auto size = static_cast<uint64_t>(status.st_size);
  const auto too_large = [&](uint64_t bytes) {
    fail<IoError>(
        "cannot read '{}': it holds {} bytes or more, the limit is {}; check that it is "
        "the file you mean, or raise the limit",
        path, bytes, max_bytes);
  };
  if (S_ISREG(status.st_mode) && size > max_bytes) too_large(size);

  // The size is only a first guess: pipes report none, and a file may grow while it is read.
  constexpr size_t kFirstPipeRead = 64 * 1024;
  std::vector<uint8_t> bytes = std::move(reused);
  bytes.resize(size > 0 ? static_cast<size_t>(size) : std::min(kFirstPipeRead, max_bytes));
  size_t used = 0;
  while (true) {
    used += read_fully(file, bytes.data() + used, bytes.size() - used, path);
    if (used < bytes.size()) break;
    uint8_t beyond;
    if (read_fully(file, &beyond, 1, path) == 0) break;
    if (used == max_bytes) too_large(uint64_t{used} + 1);
    bytes.resize(used + std::min(used, max_bytes - used));
    bytes[used++] = beyond;
  }
  bytes.resize(used);
  return bytes;
}

}  // namespace facula::io
