// From the pickle of a file of torch.save to names, tensors and values.
#pragma once

#include <deque>
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
  std::deque<TorchTensor> tensors;
  std::deque<TorchStorage> storages;
};

/// Of what a tree is made: everything, or, of objects such as modules, only the tensors below them.
enum class TorchContent : uint8_t { everything, tensors };

/// Throws IoError if the pickle makes no sense as such a description, contains itself, or would
/// take more memory than `budget` has left, to which it is charged.
TorchTree build_torch_tree(const Pickle& pickle, const std::string& source, TorchContent content,
                           MemoryBudget& budget);

}  // namespace facula::io
