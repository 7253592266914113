#include <facula/dlpack.h>

#include <dlpack/dlpack.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <string>

#include "base/check.h"
#include "core/storage.h"
#include "core/tensor_impl.h"
#include "ops/schema/region.h"

namespace facula {
namespace {

/// By DType. A bool goes as uint8, and comes back as that.
constexpr DLDataType kElements[kDTypeCount] = {
    {kDLFloat, 32, 1}, {kDLFloat, 64, 1}, {kDLInt, 32, 1},    {kDLInt, 64, 1}, {kDLUInt, 8, 1},
    {kDLUInt, 8, 1},   {kDLFloat, 16, 1}, {kDLBfloat, 16, 1}, {kDLInt, 8, 1},  {kDLInt, 16, 1},
};
/// What DLPack 0.8 added to the codes: not in the header of earlier ones, but handles may have it.
constexpr DLDataType kBoolean = {6, 8, 1};

bool same_type(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

std::string describe(DLDataType type) {
  constexpr const char* kNames[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  const std::string name =
      type.code < std::size(kNames) ? kNames[type.code] : fmt::format("type {} of ", type.code);
  const std::string lanes = type.lanes == 1 ? "" : fmt::format(" in vectors of {}", type.lanes);
  return fmt::format("{}{}{}", name, type.bits, lanes);
}

// --- Handles given out ---------------------------------------------------------------------------

/// A handle with the arrays that it points to.
struct Export {
  DLManagedTensor handle;
  Dims sizes, strides;
  Storage* storage;
};

void end_export(DLManagedTensor* handle) {
  const std::unique_ptr<Export> ended(static_cast<Export*>(handle->manager_ctx));
  ended->storage->release();
}

// --- Handles taken over --------------------------------------------------------------------------

void end_import(Storage&, void* context) {
  auto* handle = static_cast<DLManagedTensor*>(context);
  if (handle->deleter) handle->deleter(handle);
}

/// How far the entries of one dimension may reach, in elements: then places within all of them are
/// counted without overflow, in bytes too.
constexpr std::int64_t kFarthest = INT64_MAX / kMaxDims / 8;

DType dtype_of_elements(DLDataType type) {
  if (same_type(type, kBoolean)) return kBool;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (same_type(type, kElements[i])) return static_cast<DType>(i);
  }
  fail<DTypeError>(
      "from_dlpack: the elements are {}, which Facula lacks; convert them before the export to "
      "float16, 32 or 64, bfloat16, int8, 16, 32 or 64, uint8 or bool",
      describe(type));
}

IntList checked_sizes(const DLTensor& given, DType dtype) {
  check<ShapeError>(given.ndim >= 0 && given.ndim <= kMaxDims,
                    "from_dlpack: {} dimensions, a tensor has {} at most; reshape it before the "
                    "export",
                    given.ndim, kMaxDims);
  check<ValueError>(given.ndim == 0 || given.shape != nullptr,
                    "from_dlpack: the handle has {} dimensions but no shape (a null pointer)",
                    given.ndim);
  const IntList sizes(given.shape, static_cast<std::size_t>(given.ndim));
  check<ShapeError>(checked_numel(sizes, "from_dlpack") <= kFarthest,
                    "from_dlpack: a {} tensor of size {} exceeds the address space", name_of(dtype),
                    sizes);
  return sizes;
}

/// Where elements share memory they do so along a stride of 0, as everywhere: in-place writes look
/// for that alone.
Dims checked_strides(IntList sizes, const std::int64_t* given) {
  Dims strides = dense_strides(sizes, kContiguous);
  if (!given || checked_numel(sizes, "from_dlpack") == 0) return strides;
  const IntList told(given, sizes.size());
  Dims repeated_once = sizes;
  for (int d = 0; d < strides.size(); ++d) {
    const bool near = told[d] >= 0 && told[d] <= kFarthest / sizes[d];
    if (sizes[d] > 1) {
      check<ShapeError>(told[d] >= 0,
                        "from_dlpack: strides {} have a negative entry, which Facula lacks; make "
                        "the array contiguous before the export",
                        told);
      check<ShapeError>(near, "from_dlpack: size {} with strides {} exceeds the address space",
                        sizes, told);
    }
    // That of a single entry means nothing, and some libraries write anything there.
    if (near) strides[d] = told[d];
    if (strides[d] == 0) repeated_once[d] = 1;
  }
  check<ShapeError>(
      meets_elements_once(repeated_once, strides),
      "from_dlpack: elements of size {} with strides {} share memory, as windows that "
      "overlap do; make the array contiguous before the export",
      sizes, told);
  return strides;
}

/// Of an array that is not empty and takes so many bytes.
std::byte* checked_data(const DLTensor& given, IntList sizes, DType dtype, std::uint64_t bytes) {
  check<ValueError>(given.data != nullptr, "from_dlpack: null data for size {}", sizes);
  std::uint64_t first, end;
  const bool inside = !__builtin_add_overflow(reinterpret_cast<std::uintptr_t>(given.data),
                                              given.byte_offset, &first) &&
                      !__builtin_add_overflow(first, bytes, &end);
  check<ValueError>(inside, "from_dlpack: {} bytes at offset {} exceed the address space", bytes,
                    given.byte_offset);
  check<ValueError>(
      first % size_of(dtype) == 0,
      "from_dlpack: the first element is at an address that is no multiple of {}, the "
      "size of {} elements; export a copy",
      size_of(dtype), name_of(dtype));
  return static_cast<std::byte*>(given.data) + given.byte_offset;
}

}  // namespace

DLManagedTensor* to_dlpack(const Tensor& tensor) {
  check<ValueError>(tensor.defined(),
                    "to_dlpack: the tensor is undefined (a default-constructed handle)");
  const TensorImpl& impl = *tensor.impl();
  check<DeviceError>(!impl.device.is_null(),
                     "to_dlpack: a tensor on the null device has no elements; make it on the CPU");
  check<DeviceError>(impl.device.is_cpu(), "to_dlpack: the tensor is on {}; copy it with cpu()",
                     impl.device);
  check<AutogradError>(!tensor.requires_grad(),
                       "to_dlpack: the tensor of size {} requires grad, and what others compute "
                       "with it is not recorded; export detach()",
                       impl.size_list());
  void* data = tensor.raw_data();
  auto owner =
      std::make_unique<Export>(Export{{}, impl.size_list(), impl.stride_list(), impl.storage});
  owner->handle = {.dl_tensor = {.data = impl.numel == 0 ? nullptr : data,
                                 .device = {kDLCPU, 0},
                                 .ndim = impl.dim,
                                 .dtype = kElements[static_cast<int>(impl.dtype)],
                                 .shape = owner->sizes.begin(),
                                 .strides = owner->strides.begin(),
                                 .byte_offset = 0},
                   .manager_ctx = owner.get(),
                   .deleter = end_export};
  impl.storage->retain();
  return &owner.release()->handle;
}

Tensor from_dlpack(DLManagedTensor* handle) {
  check<ValueError>(handle != nullptr, "from_dlpack: the handle is a null pointer");
  const DLTensor& given = handle->dl_tensor;
  check<DeviceError>(given.device.device_type == kDLCPU,
                     "from_dlpack: the elements are on a device of DLPack's type {}, not in the "
                     "CPU's memory, {}; copy them there before the export",
                     static_cast<int>(given.device.device_type), static_cast<int>(kDLCPU));
  const DType dtype = dtype_of_elements(given.dtype);
  const IntList sizes = checked_sizes(given, dtype);
  const Dims strides = checked_strides(sizes, given.strides);

  auto impl = std::make_unique<TensorImpl>();
  impl->dtype = dtype;
  impl->set_layout(sizes, strides);
  std::uint64_t bytes = 0;
  if (impl->numel > 0) {
    std::int64_t last = 0;
    for (int d = 0; d < impl->dim; ++d) last += (impl->sizes[d] - 1) * impl->strides[d];
    bytes = static_cast<std::uint64_t>(last + 1) * size_of(dtype);
    impl->data = checked_data(given, sizes, dtype, bytes);
  }
  // Nothing fails once the storage has the handle.
  impl->storage = wrap_storage(impl->data, bytes, kCPU, end_import, handle);
  impl->storage->expose();
  return Tensor::adopt(impl.release());
}

}  // namespace facula
