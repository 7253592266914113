// The memory behind tensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include <facula/device.h>
#include <facula/export.h>

namespace facula {

/// A reference-counted block of device memory with the counters shared by every tensor viewing it.
/// Small host blocks hold their bytes right behind the header: one allocation for both.
struct Storage {
  /// Gives the bytes back; the header is released by the storage itself.
  using Deleter = void (*)(Storage& storage, void* context);

  std::int32_t references = 1;
  Device device;
  /// Somebody was given the address, through which elements may change unnoticed.
  bool exposed = false;
  bool history_is_detached = false;
  /// In-place writes so far.
  std::uint32_t version = 0;
  /// In-place writes that changed a recorded history; views taken before the last one are stale.
  std::uint32_t history = 0;
  /// Those after the first so many were all made to detached tensors, or none of them was.
  std::uint32_t history_begin = 0;
  std::size_t bytes = 0;
  /// Null for storage without memory (the null device, tracing), and until the elements are
  /// computed (runtime/deferred.h).
  void* data = nullptr;
  Deleter deleter = nullptr;
  void* context = nullptr;

  /// `data` where another thread may be about to set it; what it has written there is seen.
  void* load_data() const noexcept { return __atomic_load_n(&data, __ATOMIC_ACQUIRE); }
  void retain() noexcept { __atomic_fetch_add(&references, 1, __ATOMIC_RELAXED); }
  void release() noexcept {
    if (__atomic_load_n(&references, __ATOMIC_ACQUIRE) == 1 ||
        __atomic_fetch_sub(&references, 1, __ATOMIC_ACQ_REL) == 1) {
      destroy();
    }
  }
  void expose() noexcept {
    if (!is_exposed()) __atomic_store_n(&exposed, true, __ATOMIC_RELAXED);
  }
  bool is_exposed() const noexcept { return __atomic_load_n(&exposed, __ATOMIC_RELAXED); }
  bool unique() const noexcept { return __atomic_load_n(&references, __ATOMIC_ACQUIRE) == 1; }

 private:
  void destroy() noexcept;
};

/// Allocates `bytes` on `device`. Throws OutOfMemory, or DeviceError where the device is
/// unavailable.
Storage* allocate_storage(std::size_t bytes, Device device);
/// Wraps foreign memory.
Storage* wrap_storage(void* data, std::size_t bytes, Device device, Storage::Deleter deleter,
                      void* context);

/// How a device other than the host provides memory; registered by its backend.
struct DeviceAllocator {
  void* (*allocate)(std::size_t bytes, int device_index);
  void (*deallocate)(Storage& storage, void* context);
};
void register_allocator(DeviceType type, DeviceAllocator allocator);

}  // namespace facula
