#include "train/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include <facula/checkpoint.h>
#include <facula/error.h>

#include "io/file.h"

namespace facula::train {
namespace {

constexpr std::string_view kPrefix = "checkpoint-", kSuffix = ".safetensors";
constexpr std::size_t kDigits = 9;

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  if (name.size() < kDigits + kSuffix.size()) return std::nullopt;
  name.remove_suffix(kSuffix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

void remove_file(const std::string& path) {
  // One that cannot be removed does no harm; the next pass tries again.
  io::system_calls.unlinkat(AT_FDCWD, path.c_str(), 0);
}

}  // namespace

CheckpointFolder::CheckpointFolder(std::string path, std::int64_t keep_last, bool keep_best)
    : path_(std::move(path)), keep_last_(keep_last), keep_best_(keep_best) {}

std::string CheckpointFolder::path_of(std::int64_t step) const {
  return fmt::format("{}/{}{:09}{}", path_, kPrefix, step, kSuffix);
}

std::vector<CheckpointFolder::File> CheckpointFolder::files() const {
  std::vector<File> files;
  for (const std::string& name : io::names_in(path_)) {
    if (const auto step = step_of(name)) files.push_back({*step, path_ + "/" + name});
  }
  std::ranges::sort(files, std::greater(), &File::step);
  return files;
}

void CheckpointFolder::remove_all() {
  for (const File& file : files()) remove_file(file.path);
}

void CheckpointFolder::resumed_from(std::int64_t step, std::optional<std::int64_t> best,
                                    std::optional<Score> score) {
  for (const File& file : files()) {
    if (file.step <= step) good_.push_back(file.step);
  }
  std::ranges::sort(good_);
  best_ = best;
  best_score_ = std::move(score);
}

void CheckpointFolder::write(std::int64_t step, const StateDict& state,
                             const std::optional<Score>& score) {
  // Only this folder: if the run's is gone, its disk may be, too, and will come back.
  io::make_folder(path_);
  save_checkpoint(state, path_of(step));
  std::erase(good_, step);
  good_.push_back(step);
  if (score && score->better_than(best_score_)) {
    best_ = step;
    best_score_ = score;
  }
  try {
    prune();
  } catch (const IoError&) {
    // What cannot be listed now is removed next time.
  }
}

void CheckpointFolder::prune() {
  const std::size_t keep = std::min(good_.size(), static_cast<std::size_t>(keep_last_));
  std::vector<std::int64_t> kept(good_.end() - static_cast<std::ptrdiff_t>(keep), good_.end());
  if (keep_best_ && best_) kept.push_back(*best_);
  for (const File& file : files()) {
    // Newer ones were no use when the run was resumed; they stay until it has come that far again.
    if (file.step < good_.back() && std::ranges::count(kept, file.step) == 0) {
      remove_file(file.path);
    }
  }
  good_ = std::vector(good_.end() - static_cast<std::ptrdiff_t>(keep), good_.end());
}

std::optional<std::int64_t> CheckpointFolder::last() const {
  return good_.empty() ? std::nullopt : std::optional(good_.back());
}

}  // namespace facula::train
