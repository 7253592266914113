#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>

#include <facula/json_line.h>
#include <facula/safetensors.h>

#include "base/check.h"
#include "io/atomic_file.h"

namespace facula::train {
namespace {

std::string line_of(const EpochReport& report) {
  JsonLine line;
  line.add("epoch", report.epoch)
      .add("steps", report.steps)
      .add("lr", report.lr)
      .add("train_loss", report.training.loss)
      .add("train_accuracy", report.training.accuracy);
  if (report.validation) {
    line.add("val_loss", report.validation->loss).add("val_accuracy", report.validation->accuracy);
  }
  line.add("seconds", report.seconds).add("items_per_s", report.items_per_s);
  return line.str() + "\n";
}

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// The run keeps to its folder wherever the process goes.
std::string absolute(const std::string& path) {
  std::error_code nowhere;
  const std::filesystem::path result = std::filesystem::absolute(path, nowhere);
  return path.empty() || nowhere ? path : result.string();
}

}  // namespace

RunFolder::RunFolder(const std::string& path)
    : path_(absolute(path)), metrics_path_(path_ + "/metrics.jsonl") {
  if (path_.empty()) return;
  io::make_folders(path_);
  // The system releases the lock when the process ends, however it does.
  lock_ = io::open_for_reading(path_);
  const int locked = io::retry_interrupted(
      [this] { return io::system_calls.flock(lock_.get(), LOCK_EX | LOCK_NB); });
  check<IoError>(locked == 0 || errno != EWOULDBLOCK,
                 "another run is using the folder '{}'; end it, or choose another folder", path_);
  if (locked != 0) return;  // no locks on this file system: nobody knows what is being written
  io::remove_temporaries(path_);
  io::remove_temporaries(checkpoints());
}

bool RunFolder::has_results() const {
  std::error_code ignored;
  return std::filesystem::exists(weights_path(), ignored);
}

bool RunFolder::has_metrics() const {
  std::error_code ignored;
  const std::uintmax_t bytes = std::filesystem::file_size(metrics_path_, ignored);
  return !ignored && bytes > 0;
}

void RunFolder::remove_results() {
  std::error_code problem;
  std::filesystem::remove(weights_path(), problem);
  if (problem) io::fail_system("remove", weights_path(), problem.value());
}

void RunFolder::begin(const std::vector<EpochReport>& history) {
  if (!exists()) return;
  std::string text;
  for (const EpochReport& report : history) text += line_of(report);
  metrics_complete_ = false;
  io::write_file(metrics_path_, bytes_of(text));
  metrics_complete_ = true;
}

std::string RunFolder::add(const std::vector<EpochReport>& history) {
  if (!exists()) return {};
  try {
    if (!metrics_complete_) {
      begin(history);
      return {};
    }
    metrics_complete_ = false;  // unless all of the line is written
    const io::FileDescriptor file(io::retry_interrupted([this] {
      return io::system_calls.openat(AT_FDCWD, metrics_path_.c_str(),
                                     O_WRONLY | O_APPEND | O_CLOEXEC, 0);
    }));
    if (file.get() < 0) io::fail_system("write", metrics_path_, errno);
    io::write_all(file.get(), bytes_of(line_of(history.back())), metrics_path_);
    metrics_complete_ = true;
    return {};
  } catch (const IoError& error) {
    return error.what();
  }
}

void RunFolder::finish(const nn::Module& model, const std::vector<EpochReport>& history) {
  if (!exists()) return;
  save_safetensors(model.state_dict(), weights_path());
  if (!metrics_complete_) begin(history);
}

}  // namespace facula::train
