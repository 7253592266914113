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
  constexpr uint64_t kMemory = 1 << 20;
  try {
    const facula::io::Pickle pickle({data, size}, "fuzz", facula::io::is_allowed_in_torchscript,
                                    kMemory);
    if (pickle.size() > size) std::abort();
    const auto tree = facula::io::build_torch_tree(pickle, "fuzz", {.max_memory = kMemory});
    for (const auto& tensor : tree.tensors) {
      if (!tree.structure.contains(tensor.name)) std::abort();
      if (tensor.storage >= tree.storages.size()) std::abort();
    }
  } catch (const facula::IoError&) {
  }
  return 0;
}
