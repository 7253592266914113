#include "core/tensor_impl.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace facula {

namespace detail {

void destroy(TensorImpl* impl) noexcept {
  if (impl->node) {
    if (impl->has(TensorImpl::kIsLeafVariable) && !autograd::forget_variable(*impl)) return;
    autograd::release(impl->node);
  }
  if (impl->storage) impl->storage->release();
  delete impl;
}

}  // namespace detail

void TensorImpl::set_layout(IntList new_sizes, IntList new_strides) {
  dim = static_cast<std::uint8_t>(new_sizes.size());
  numel = 1;
  for (int d = 0; d < dim; ++d) {
    sizes[d] = new_sizes[d];
    strides[d] = new_strides[d];
    numel *= sizes[d];
  }
  set(kIsContiguous, is_contiguous(*this, kContiguous));
}

Dims dense_strides(IntList sizes, MemoryFormat format) {
  Dims strides = Dims::filled(static_cast<int>(sizes.size()), 0);
  std::int64_t step = 1;
  auto place = [&](int d) {
    strides[d] = step;
    step *= std::max<std::int64_t>(sizes[d], 1);
  };
  if (format == kChannelsLast && sizes.size() == 4) {
    for (int d : {1, 3, 2, 0}) place(d);
  } else {
    for (int d = static_cast<int>(sizes.size()) - 1; d >= 0; --d) place(d);
  }
  return strides;
}

std::int64_t checked_numel(IntList sizes, const char* what) {
  std::int64_t product = 1;
  bool empty = false;
  for (std::int64_t size : sizes) {
    check<ShapeError>(size >= 0, "{}: size {} has a negative entry", what, sizes);
    empty |= size == 0;
    check<ShapeError>(!__builtin_mul_overflow(product, std::max<std::int64_t>(size, 1), &product),
                      "{}: the entries of size {} multiply to more than 2^63", what, sizes);
  }
  return empty ? 0 : product;
}

namespace {

Tensor allocate(IntList sizes, IntList strides, DType dtype, Device device) {
  const std::int64_t numel = checked_numel(sizes, "empty");
  std::size_t bytes;
  check<ShapeError>(
      !__builtin_mul_overflow(static_cast<std::size_t>(numel), size_of(dtype), &bytes),
      "empty: a {} tensor of size {} exceeds the address space", name_of(dtype), sizes);
  Storage* storage = allocate_storage(bytes, device);
  auto* impl = new TensorImpl;
  impl->dtype = dtype;
  impl->device = device;
  impl->storage = storage;
  impl->data = static_cast<std::byte*>(storage->data);
  impl->set_layout(sizes, strides);
  return Tensor::adopt(impl);
}

}  // namespace

Tensor new_tensor(IntList sizes, DType dtype, Device device, MemoryFormat format) {
  checked_numel(sizes, "empty");
  return allocate(sizes, dense_strides(sizes, format), dtype, device);
}

Tensor new_strided(IntList sizes, IntList strides, DType dtype, Device device) {
  return allocate(sizes, strides, dtype, device);
}

Tensor alias(const TensorImpl& base, IntList sizes, IntList strides, std::int64_t offset) {
  auto* impl = new TensorImpl;
  impl->dtype = base.dtype;
  impl->device = base.device;
  impl->flags = base.load_flags() & TensorImpl::kInferenceTensor;
  impl->offset = offset;
  if (base.storage) {
    impl->storage = base.storage;
    impl->storage->retain();
    if (void* data = impl->storage->load_data()) {
      impl->data = static_cast<std::byte*>(data) + offset * size_of(base.dtype);
    }
  }
  impl->set_layout(sizes, strides);
  return Tensor::adopt(impl);
}

Tensor alias(const TensorImpl& base) {
  auto* impl = new TensorImpl(base, TensorImpl::kIsContiguous | TensorImpl::kInferenceTensor);
  if (impl->storage) impl->storage->retain();
  return Tensor::adopt(impl);
}

Tensor alias_of_result(const TensorImpl& result) {
  if (!result.unique() || !result.storage || !result.storage->alone()) return alias(result);
  auto* impl = new TensorImpl(result, TensorImpl::kIsContiguous | TensorImpl::kInferenceTensor);
  // A locked addition takes as long as a tenth of a small recorded op.
  __atomic_store_n(&result.storage->references, 2, __ATOMIC_RELAXED);
  return Tensor::adopt(impl);
}

Tensor shape_only(const TensorImpl& like) {
  auto* impl = new TensorImpl(like, TensorImpl::kIsContiguous);
  impl->storage = nullptr;
  impl->data = nullptr;
  return Tensor::adopt(impl);
}

TensorImpl* new_contiguous_like(const TensorImpl& like) {
  Storage* storage =
      allocate_storage(static_cast<std::size_t>(like.numel) * size_of(like.dtype), like.device);
  auto* impl = new TensorImpl(like, TensorImpl::kIsContiguous);
  impl->storage = storage;
  impl->data = static_cast<std::byte*>(storage->data);
  impl->offset = 0;
  return impl;
}

bool is_contiguous(const TensorImpl& impl, MemoryFormat format) {
  if (impl.numel == 0) return true;
  if (format == kChannelsLast && impl.dim != 4) return false;
  const Dims dense = dense_strides(impl.size_list(), format);
  for (int d = 0; d < impl.dim; ++d) {
    if (impl.sizes[d] != 1 && impl.strides[d] != dense[d]) return false;
  }
  return true;
}

bool is_dense(const TensorImpl& impl) {
  if (impl.has(TensorImpl::kIsContiguous) || impl.numel == 0) return true;
  // Starting from stride 1, each stride must continue where the dimensions placed so far end.
  std::int64_t expected = 1;
  while (expected < impl.numel) {
    int next = 0;
    while (next < impl.dim && (impl.strides[next] != expected || impl.sizes[next] == 1)) ++next;
    if (next == impl.dim) return false;
    expected *= impl.sizes[next];
  }
  return true;
}

Dims dense_strides_like(const TensorImpl& impl) {
  int order[kMaxDims];  // from the outermost to the innermost
  for (int d = 0; d < impl.dim; ++d) {
    if (impl.sizes[d] > 1 && impl.strides[d] <= 0) {
      return dense_strides(impl.size_list(), kContiguous);
    }
    // Of equal strides, that of a dimension of size 1 is the inner one.
    const auto inside = [&](int other) {
      return impl.strides[other] < impl.strides[d] ||
             (impl.strides[other] == impl.strides[d] && impl.sizes[other] == 1);
    };
    int place = d;
    for (; place > 0 && inside(order[place - 1]); --place) order[place] = order[place - 1];
    order[place] = d;
  }
  Dims strides(impl.size_list());
  std::int64_t stride = 1;
  for (int place = impl.dim; place-- > 0;) {
    strides[order[place]] = stride;
    stride *= std::max<std::int64_t>(1, impl.sizes[order[place]]);
  }
  return strides;
}

int wrap_dim(std::int64_t d, int dims, const char* op) {
  // A 0-d tensor accepts dimensions 0 and -1, as in PyTorch.
  const int range = std::max(dims, 1);
  check<IndexError>(d >= -range && d < range,
                    "{}: dimension {} is out of range for a tensor of {} dimensions; use {} to {}",
                    op, d, dims, -range, range - 1);
  return static_cast<int>(d < 0 ? d + range : d);
}

}  // namespace facula
