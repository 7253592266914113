#include "io/sha256.h"

#include <fmt/format.h>
#include <nettle/sha2.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "io/file.h"

namespace facula::io {
namespace {

class Sha256 {
 public:
  Sha256() { sha256_init(&state_); }
  void update(std::span<const uint8_t> bytes) {
    sha256_update(&state_, bytes.size(), bytes.data());
  }
  std::string finish() {
    std::array<uint8_t, SHA256_DIGEST_SIZE> digest;
    sha256_digest(&state_, digest.size(), digest.data());
    std::string text;
    for (const uint8_t byte : digest) text += fmt::format("{:02x}", byte);
    return text;
  }

 private:
  sha256_ctx state_;
};

}  // namespace

std::string sha256_of(std::span<const uint8_t> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

std::string sha256_of(std::string_view text) {
  return sha256_of({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

std::string sha256_of_file(const std::string& path) {
  return sha256_of_file(open_for_reading(path), path);
}

std::string sha256_of_file(const FileDescriptor& file, const std::string& path) {
  std::vector<uint8_t> buffer(size_t{1} << 18);
  Sha256 hash;
  while (true) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_system("read", path, errno);
    if (count == 0) return hash.finish();
    hash.update(std::span(buffer).first(static_cast<size_t>(count)));
  }
}

}  // namespace facula::io
