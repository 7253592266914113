#include "data/staging.h"

#include <atomic>

namespace facula::data {
namespace {

std::atomic<Staging*> current{nullptr};

}  // namespace

Staging* staging() { return current.load(); }

void set_staging(Staging* staging) { current.store(staging); }

Tensor batch_memory(IntList sizes, DType dtype, MemoryFormat format, bool pin) {
  Staging* device = pin ? staging() : nullptr;
  return device ? device->pinned(sizes, dtype, format) : empty(sizes, dtype, format);
}

Tensor begin_copy(const Tensor& tensor, Device device) {
  if (device == tensor.device()) return tensor;
  Staging* backend = staging();
  return backend ? backend->upload(tensor, device) : tensor.to(device);
}

}  // namespace facula::data
