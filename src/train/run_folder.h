// The folder that a training run leaves its results in.
#pragma once

#include <string>
#include <vector>

#include <facula/nn/module.h>
#include <facula/train.h>

#include "io/file.h"

namespace facula::train {

/// Writes nothing if the path is empty.
class RunFolder {
 public:
  /// Makes the folder and holds it: throws IoError if another run does, or if it cannot be written.
  /// Removes what killed runs have left half-written.
  explicit RunFolder(const std::string& path);

  bool exists() const { return !path_.empty(); }
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  /// Whether a run has left weights here.
  bool has_results() const;
  /// Whether one has left metrics of an epoch.
  bool has_metrics() const;

  /// Removes those weights. Throws IoError.
  void remove_results();

  /// Makes metrics.jsonl hold these epochs. Throws IoError.
  void begin(const std::vector<EpochReport>& history);
  /// Appends the last epoch; if that fails, the file is written anew the next time. Returns what
  /// went wrong, or an empty text.
  std::string add(const std::vector<EpochReport>& history);
  /// Writes model.safetensors, atomically, and what metrics.jsonl lacks. Throws IoError.
  void finish(const nn::Module& model, const std::vector<EpochReport>& history);

 private:
  std::string weights_path() const { return path_ + "/model.safetensors"; }

  std::string path_;
  std::string metrics_path_;
  io::FileDescriptor lock_;
  bool metrics_complete_ = false;
};

}  // namespace facula::train
