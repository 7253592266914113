// The folder that a training run leaves its results in.
#pragma once

#include <string>

#include <facula/nn/module.h>
#include <facula/train.h>

#include "io/file.h"

namespace facula::train {

/// Writes nothing if the path is empty.
class RunFolder {
 public:
  /// Makes the folder and an empty metrics.jsonl. Throws IoError.
  explicit RunFolder(const std::string& path);

  /// Appends a line to metrics.jsonl.
  void add(const EpochReport& report);
  /// Writes model.safetensors, atomically.
  void save_weights(const nn::Module& model) const;

 private:
  std::string path_;
  std::string metrics_path_;
  io::FileDescriptor metrics_;
};

}  // namespace facula::train
