// The memory behind tensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include <facula/device.h>
#include <facula/export.h>

namespace facula {

/// The in-place writes to a storage that changed a recorded history. A view that was taken before
/// one is stale, if that was made to the tensor it is a view of or to another view of that:
/// detach() begins a family of its own. The original's is number 0.
struct Histories {
  std::uint32_t original = 0;                   ///< the number of its last such write
  std::uint32_t families = 0;                   ///< begun by detach()
  std::uint32_t latest_family = 0, latest = 0;  ///< of detached ones, and its last such write
  std::uint32_t others = 0;                     ///< the last of those before it

  std::uint32_t writes() const { return original > latest ? original : latest; }
  /// The last write to a family, or to one of several detached ones.
  std::uint32_t last_of(std::uint32_t family) const {
    return family == 0 ? original : family == latest_family ? latest : others;
  }
  void count(std::uint32_t family) {
    const std::uint32_t number = writes() + 1;
    if (family == 0) {
      original = number;
      return;
    }
    if (family != latest_family) others = latest;
    latest_family = family;
    latest = number;
  }
};

/// A reference-counted block of device memory with the counters shared by every tensor viewing it.
/// Small host blocks hold their bytes right behind the header: one allocation for both.
struct Storage {
  /// Gives the bytes back; the header is released by the storage itself.
  using Deleter = void (*)(Storage& storage, void* context);

  std::int32_t references = 1;
  Device device;
  /// Somebody was given the address, through which elements may change unnoticed.
  bool exposed = false;
  /// In-place writes so far.
  std::uint32_t version = 0;
  Histories histories;
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
  /// The number of one that detach() begins.
  std::uint32_t new_family() noexcept {
    return __atomic_add_fetch(&histories.families, 1, __ATOMIC_RELAXED);
  }
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
