// Any bytes given to the pickle machine end in a tree that fits into the memory allowed for it, or
// an IoError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <facula/error.h>

#include "io/torch/pickle.h"
#include "io/torch/torch_tree.h"
#include "io/torch/torch_types.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kMemory = 2 << 20;
  try {
    facula::io::MemoryBudget budget(kMemory, "fuzz");
    const facula::io::Pickle pickle({data, size}, "fuzz", facula::io::is_allowed_in_torchscript,
                                    budget);
    if (pickle.size() > size) std::abort();
    const auto tree =
        facula::io::build_torch_tree(pickle, "fuzz", facula::io::TorchContent::everything, budget);
    for (const auto& tensor : tree.tensors) {
      if (!tree.structure.contains(tensor.name)) std::abort();
      if (tensor.storage >= tree.storages.size()) std::abort();
    }
  } catch (const facula::IoError&) {
  }
  return 0;
}
