#include <facula/hub.h>

#include <algorithm>
#include <cctype>

#include "base/check.h"
#include "base/env.h"
#include "io/file.h"
#include "io/hub_cache.h"
#include "io/sha256.h"

namespace facula::hub {
namespace {

constexpr std::size_t kDigits = 64, kFewestDigits = 8;

std::string checked_sha256(std::string sha256) {
  std::ranges::transform(sha256, sha256.begin(), [](unsigned char c) { return std::tolower(c); });
  check<ValueError>(
      sha256.empty() || (sha256.size() >= kFewestDigits && sha256.size() <= kDigits &&
                         sha256.find_first_not_of("0123456789abcdef") == std::string::npos),
      "hub: the sha256 \"{}\" has not 8 to 64 hexadecimal digits", sha256);
  return sha256;
}

std::string local_file(const std::string& path, const std::string& sha256) {
  check<IoError>(io::is_file(path), "hub: there is no file '{}'; check the path", path);
  if (sha256.empty()) return path;
  const std::string found = io::sha256_of_file(path);
  check<IoError>(found.starts_with(sha256),
                 "hub: '{}' has the SHA-256 {}, expected {}; it is not the file that is meant",
                 path, found, sha256);
  return path;
}

/// What is put into the cache by hand is found by its whole SHA-256 only.
[[noreturn]] void fail_offline(const io::HubCache& cache, const io::WantedFile& file) {
  const std::string content = cache.content_of(file);
  fail<IoError>(
      "hub: {} is not in the cache, and downloads are off (offline); give the path of the file, {} "
      "as {}, or allow downloads",
      file.url,
      content.empty() ? "or all 64 digits of its SHA-256 and put it there" : "put it there",
      cache.path_of(content.empty() ? "SHA256" : content));
}

}  // namespace

std::string cache_folder() {
  if (const auto home = base::env_string("FACULA_HOME")) return *home + "/hub";
  if (const auto cache = base::env_string("XDG_CACHE_HOME")) return *cache + "/facula/hub";
  const auto home = base::env_string("HOME");
  check<IoError>(home.has_value(),
                 "hub: neither FACULA_HOME nor HOME says where files are kept; set one");
  return *home + "/.cache/facula/hub";
}

std::string download(const std::string& source, const std::string& sha256,
                     const DownloadOptions& options) {
  constexpr std::string_view kFile = "file://";
  std::string wanted = checked_sha256(sha256);
  if (source.starts_with(kFile)) return local_file(source.substr(kFile.size()), wanted);
  const std::size_t scheme = source.find("://");
  if (scheme == std::string::npos) return local_file(source, wanted);
  check<ValueError>(source.starts_with("http://") || source.starts_with("https://"),
                    "hub: cannot download {}; give a path or an address that begins with http:// "
                    "or https://",
                    source);
  if (wanted.empty()) wanted = io::sha256_in_name(source);

  const io::WantedFile file{source, wanted};
  const io::HubCache cache(cache_folder());
  if (std::string path = cache.find(file); !path.empty()) return path;
  if (options.offline || base::env_bool("FACULA_OFFLINE").value_or(false)) {
    fail_offline(cache, file);
  }
  check<ValueError>(options.timeout >= 1, "hub: a timeout of {} s, must be at least 1",
                    options.timeout);
  return cache.fetch(file, options.timeout);
}

nn::AnyModule load(const std::string& model, const LoadOptions& options) {
  nn::AnyModule module = models::create(model, options.num_classes);
  module->eval();
  if (options.weights.empty()) return module;
  const std::string path = download(options.weights, options.sha256, options.download);
  try {
    const nn::LoadReport report =
        module->load_pth(path, {.key_prefix = options.key_prefix, .strict = options.strict});
    const StateDict state = module->state_dict();
    check<ValueError>(report.missing.size() < state.flat().size(),
                      "none of its names is one of the model's; check the key_prefix");
  } catch (const ValueError& error) {
    fail<ValueError>("hub: {} holds no weights of {}: {}", options.weights, model, error.what());
  }
  return module;
}

const std::vector<models::ModelInfo>& list() { return models::list(); }

}  // namespace facula::hub
