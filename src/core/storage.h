// The memory behind tensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include <facula/device.h>
#include <facula/export.h>

namespace facula {

/// The in-place writes to a storage that changed a recorded history, numbered from 1. Views taken
/// before one are stale, if it was made to the tensor that they are views of or to another view of
/// that: detach() begins a family of its own; the original's is number 0. Those that have no
/// history themselves are so only until all of the tensor is overwritten with constants.
struct Histories {
  /// The number of a write, doubled, and 1 more if it left a history.
  using Write = std::uint32_t;

  Write original = 0;               ///< the last to the original
  std::uint32_t families = 0;       ///< begun by detach()
  std::uint32_t latest_family = 0;  ///< of the detached ones
  Write latest = 0;                 ///< the last to that
  Write others = 0;  ///< the last to one of the others, with a history if any has one

  /// The number of the last write of all.
  std::uint32_t count() const { return (original > latest ? original : latest) / 2; }
  /// Whether views of the family, taken after so many writes, are stale.
  bool stale(std::uint32_t family, std::uint32_t taken_after, bool with_history) const {
    const Write last = family == 0 ? original : family == latest_family ? latest : others;
    return last / 2 > taken_after && (with_history || last % 2 == 1);
  }
  void add(std::uint32_t family, bool leaves_history) {
    const Write write = (count() + 1) * 2 + (leaves_history ? 1 : 0);
    if (family == 0) {
      original = write;
      return;
    }
    if (family != latest_family) others = latest | others % 2;
    latest_family = family;
    latest = write;
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
  /// Whether only the caller's reference leads to it. One that waits is found by other threads as
  /// long as its count is not 0.
  bool alone() const noexcept {
    return __atomic_load_n(&context, __ATOMIC_ACQUIRE) == nullptr && unique();
  }
  void release() noexcept {
    if (alone() || __atomic_fetch_sub(&references, 1, __ATOMIC_ACQ_REL) == 1) {
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
