#include "train/run_folder.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include <facula/json_line.h>
#include <facula/safetensors.h>

namespace facula::train {

RunFolder::RunFolder(const std::string& path)
    : path_(path), metrics_path_(path + "/metrics.jsonl") {
  if (path_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) io::fail_system("create the folder", path_, error.value());
  metrics_ = io::FileDescriptor(
      ::open(metrics_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (metrics_.get() < 0) io::fail_system("write", metrics_path_, errno);
}

void RunFolder::add(const EpochReport& report) {
  if (path_.empty()) return;
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
  const std::string text = line.str() + "\n";
  io::write_all(metrics_.get(), {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()},
                metrics_path_);
}

void RunFolder::save_weights(const nn::Module& model) const {
  if (!path_.empty()) save_safetensors(model.state_dict(), path_ + "/model.safetensors");
}

}  // namespace facula::train
