// What the backend of a device does for the loader.
#pragma once

#include <facula/tensor.h>

namespace facula::data {

/// Page-locked memory for batches, and copies from it, which run beside computation.
class Staging {
 public:
  virtual ~Staging() = default;
  /// An uninitialised tensor in page-locked host memory.
  virtual Tensor pinned(IntList sizes, DType dtype, MemoryFormat format) = 0;
  /// Begins to copy a tensor of host memory to `device` on a stream of its own. What the device is
  /// told to do afterwards finds the copy done, and page-locked memory is not used again before.
  virtual Tensor upload(const Tensor& tensor, Device device) = 0;
};

/// Null where no device needs it.
Staging* staging();
/// Set by the backend of a device; null to take it back.
void set_staging(Staging* staging);

/// A batch's tensor: page-locked if wanted and possible, else from the caching allocator.
Tensor batch_memory(IntList sizes, DType dtype, MemoryFormat format, bool pin);
/// A batch's tensor on `device`, where the copy may still be under way.
Tensor begin_copy(const Tensor& tensor, Device device);

}  // namespace facula::data
