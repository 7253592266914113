#include "io/hub_cache.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "io/atomic_file.h"
#include "io/file.h"
#include "io/http.h"
#include "io/partial_file.h"
#include "io/sha256.h"

namespace facula::io {
namespace {

constexpr size_t kDigits = 64, kFewestDigits = 8;

bool is_decimal(std::string_view text) {
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_hexadecimal(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Fills the partial file, going on after what is there if a checksum, which begins as `expected`
/// does, will tell whether the parts belong together: the file may have changed meanwhile. Returns
/// whether there are several. Only what gets further than all attempts before is progress: a server
/// that cannot resume, and breaks off each time, refills it for ever.
bool transfer(PartialFile& partial, const std::string& url, int64_t timeout,
              const std::string& expected) {
  constexpr int kFruitlessAttempts = 3;
  const bool checked = !expected.empty();
  int fruitless = 0;
  uint64_t furthest = 0;
  while (true) {
    if (!checked) partial.clear();
    const uint64_t before = partial.size();
    const HttpResult result = http_fetch(url, partial.file(), before, timeout, partial.path());
    if (result.complete) return before > 0;
    if (result.cannot_resume) {
      // All may be there: of a process that was killed before it knew.
      if (sha256_of_file(partial.path()).starts_with(expected)) return true;
      partial.clear();
      continue;  // from the beginning, where there is nothing to resume
    }
    const uint64_t after = partial.size();
    fruitless = after > std::max(before, furthest) ? 0 : fruitless + 1;
    furthest = std::max(furthest, after);
    if (result.worth_retrying && fruitless < kFruitlessAttempts) continue;
    const std::string kept =
        after > 0 && partial.worth_keeping()
            ? fmt::format("; the {} bytes that have arrived are kept for the next attempt", after)
            : "";
    fail<IoError>("cannot download {}: {}{}; {}", url, result.error, kept, result.remedy);
  }
}

}  // namespace

std::string sha256_in_name(const std::string& url) {
  const std::string path = url.substr(0, url.find_first_of("?#"));
  const std::string name = path.substr(path.rfind('/') + 1);
  const std::string stem = name.substr(0, name.rfind('.'));
  const size_t dash = stem.rfind('-');
  if (dash == std::string::npos) return "";
  std::string digits = stem.substr(dash + 1);
  const bool plausible =
      digits.size() >= kFewestDigits && digits.size() <= kDigits && is_hexadecimal(digits);
  return plausible && !is_decimal(digits) ? std::move(digits) : "";
}

std::string HubCache::content_of(const WantedFile& wanted) const {
  if (wanted.sha256.size() == kDigits) return wanted.sha256;
  const std::string note = folder_ + "/addresses/" + sha256_of(wanted.url);
  if (!is_file(note)) return "";
  constexpr size_t kLongestNote = 1 << 16;
  const auto bytes = read_file(note, kLongestNote);
  const std::string text(bytes.begin(), bytes.end());
  const std::string digits = text.substr(0, kDigits);
  const bool whole = text == digits + " " + wanted.url + "\n" && is_hexadecimal(digits);
  return whole && digits.starts_with(wanted.sha256) ? digits : "";
}

std::string HubCache::find(const WantedFile& wanted) const {
  const std::string sha256 = content_of(wanted);
  if (sha256.empty()) return "";
  std::string path = path_of(sha256);
  while (is_file(path)) {
    // Open until it is removed, so that no other file can get its number.
    const FileDescriptor file = open_for_reading(path);
    if (sha256_of_file(file, path) == sha256) return path;
    // Others may have downloaded it anew while this one was read.
    if (!is_at(file, path)) continue;
    log_warning("the cached file {} is damaged and removed", path);
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    break;
  }
  return "";
}

std::string HubCache::fetch(const WantedFile& wanted, int64_t timeout) const {
  for (const char* part : {"/files", "/addresses", "/partial"}) make_folders(folder_ + part);
  const std::string address = sha256_of(wanted.url);
  PartialFile partial(folder_ + "/partial/" + address);
  // Somebody else may have downloaded it while this process waited for the lock.
  if (std::string path = find(wanted); !path.empty()) {
    partial.remove();
    return path;
  }
  const std::string expected = wanted.sha256.empty() ? content_of(wanted) : wanted.sha256;
  partial.set_worth_keeping(!expected.empty());
  const bool resumed = transfer(partial, wanted.url, timeout, expected);
  std::string sha256 = sha256_of_file(partial.path());
  if (!sha256.starts_with(expected) && resumed) {
    partial.clear();
    transfer(partial, wanted.url, timeout, expected);
    sha256 = sha256_of_file(partial.path());
  }
  if (!sha256.starts_with(expected)) {
    partial.remove();
    const bool named = expected == sha256_in_name(wanted.url);
    fail<IoError>(
        "download: {} has the SHA-256 {}, expected {}{}; it is not the file that is meant, "
        "or was changed on the way: check the address and the checksum{}",
        wanted.url, sha256, expected, expected.size() < kDigits ? "..." : "",
        named ? ", or give that SHA-256 if what ends the name is none" : "");
  }
  std::string path = path_of(sha256);
  partial.rename_to(path);
  const std::string note = sha256 + " " + wanted.url + "\n";
  write_file(folder_ + "/addresses/" + address,
             {reinterpret_cast<const uint8_t*>(note.data()), note.size()});
  return path;
}

}  // namespace facula::io
