// What the backend of a device does for the loader.
#pragma once

#include <facula/tensor.h>

namespace facula::data {

/// Page-locked memory for batches; copies from it run beside computation.
class Staging {
 public:
  virtual ~Staging() = default;
  /// An uninitialised tensor in page-locked host memory.
  virtual Tensor pinned(IntList sizes, DType dtype, MemoryFormat format) = 0;
};

/// Null where no device needs it.
Staging* staging();
/// Set by the backend of a device; null to take it back.
void set_staging(Staging* staging);

/// A batch's tensor: page-locked if wanted and possible, else from the caching allocator.
Tensor batch_memory(IntList sizes, DType dtype, MemoryFormat format, bool pin);

}  // namespace facula::data
