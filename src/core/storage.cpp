#include "core/storage.h"

#include <new>

#include "base/check.h"
#include "core/free_list.h"
#include "core/host_allocator.h"

namespace facula {
namespace {

// The header occupies one cache line, so inline bytes stay 64-byte aligned.
constexpr std::size_t kHeaderBytes = 64;
static_assert(sizeof(Storage) <= kHeaderBytes);
constexpr std::size_t kInlineLimit = 4096 - kHeaderBytes;

DeviceAllocator device_allocators[kDeviceTypeCount] = {};

void free_host(Storage& storage, void*) { host_free(storage.data, storage.bytes); }

Storage* new_header(Device device, std::size_t bytes) {
  auto* storage = new (small_allocate(kHeaderBytes)) Storage;
  storage->device = device;
  storage->bytes = bytes;
  return storage;
}

Storage* allocate_host(std::size_t bytes) {
  if (bytes <= kInlineLimit) {
    auto* storage = new (small_allocate(kHeaderBytes + bytes)) Storage;
    storage->bytes = bytes;
    storage->data = reinterpret_cast<std::byte*>(storage) + kHeaderBytes;
    return storage;
  }
  void* data = host_allocate(bytes);
  Storage* storage = new_header(kCPU, bytes);
  storage->data = data;
  storage->deleter = free_host;
  return storage;
}

}  // namespace

void Storage::destroy() noexcept {
  // Memory of others, which has a context, may begin where this ends.
  const bool inline_bytes = !context && data == reinterpret_cast<std::byte*>(this) + kHeaderBytes;
  if (deleter) deleter(*this, context);
  small_free(this, kHeaderBytes + (inline_bytes ? bytes : 0));
}

Storage* allocate_storage(std::size_t bytes, Device device) {
  if (device.is_cpu()) [[likely]]
    return allocate_host(bytes);
  if (device.is_null()) return new_header(device, bytes);
  const DeviceAllocator& allocator = device_allocators[static_cast<int>(device.type)];
  check<DeviceError>(allocator.allocate != nullptr,
                     "{} is not available: this build or machine has no such device; use kCPU",
                     device);
  void* data = allocator.allocate(bytes, device.index);
  Storage* storage = new_header(device, bytes);
  storage->data = data;
  storage->deleter = allocator.deallocate;
  return storage;
}

Storage* wrap_storage(void* data, std::size_t bytes, Device device, Storage::Deleter deleter,
                      void* context) {
  Storage* storage = new_header(device, bytes);
  storage->data = data;
  storage->deleter = deleter;
  storage->context = context;
  return storage;
}

void register_allocator(DeviceType type, DeviceAllocator allocator) {
  device_allocators[static_cast<int>(type)] = allocator;
}

}  // namespace facula
