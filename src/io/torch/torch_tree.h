// From the pickle of a file of torch.save to names, tensors and values.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/torch/pickle.h"
#include "io/torch/torch_file.h"
#include "io/torch/torch_types.h"

namespace facula::io {

/// What a pickle describes. Every tensor lies within its storage; that the storages are there is
/// the caller's to check.
struct TorchTree {
  StateDict structure;  ///< with undefined tensors
  std::vector<TorchTensor> tensors;
  std::vector<TorchStorage> storages;
};

struct TorchTreeOptions {
  /// Of objects such as modules, only the tensors below them.
  bool tensors_only = false;
  /// Bytes that the result may take.
  uint64_t max_memory = 0;
};

/// Throws IoError if the pickle makes no sense as such a description, contains itself, or would
/// take too much memory.
TorchTree build_torch_tree(const Pickle& pickle, const std::string& source,
                           const TorchTreeOptions& options);

}  // namespace facula::io
