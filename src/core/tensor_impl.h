// What a tensor handle points to.
#pragma once

#include <facula/tensor.h>

#include "core/free_list.h"
#include "core/storage.h"

namespace facula {

namespace autograd {
struct Node;
/// Drops one reference to a node of the tape. Defined by the autograd layer.
void release(Node* node) noexcept;
/// Asked by whoever found its handle to be a leaf's last, before destroying the leaf. False if a
/// backward pass has got another handle meanwhile, which then is the last.
bool forget_variable(TensorImpl& leaf) noexcept;
}  // namespace autograd

/// Shape, layout and place of a tensor. 256 bytes, recycled through the thread's free list.
struct TensorImpl : detail::TensorHead {
  enum Flag : std::uint8_t {
    kIsContiguous = 1,      ///< row-major without gaps
    kRequiresGrad = 2,      ///< a leaf to differentiate, or the result of a recorded op
    kIsLeafVariable = 4,    ///< `node` accumulates this tensor's gradient
    kIsView = 8,            ///< made by a view op
    kWrappedNumber = 16,    ///< a C++ number: lowest priority in type promotion
    kInferenceTensor = 32,  ///< made in InferenceMode
    kUnrecordedView = 64,   ///< a view, taken without recording, of a tensor that requires grad
    kSaved = 128,           ///< a node keeps, or kept, the tensor itself
  };

  DType dtype = kFloat32;
  std::uint8_t flags = 0;
  std::uint8_t dim = 0;
  Device device;
  std::uint16_t output_index = 0;  ///< which output of `node` this is
  /// Histories::count() when this view was taken or got its present history.
  std::uint32_t view_history = 0;
  /// Of histories: that of the detached tensor which this is, or is a view of.
  std::uint32_t family = 0;
  std::int64_t numel = 0;
  std::byte* data = nullptr;  ///< first element; null as in Storage
  Storage* storage = nullptr;
  std::int64_t offset = 0;         ///< of the first element, in elements
  autograd::Node* node = nullptr;  ///< producer, or gradient accumulator of a leaf
  void* binding = nullptr;         ///< slot for tracing
  /// The tensor, no view itself, that this is a view of, if writes to either change the history of
  /// both. Only views have one, which others need not look for in the end.
  union {
    Tensor base;
  };
  std::int64_t sizes[kMaxDims];
  std::int64_t strides[kMaxDims];

  TensorImpl() : base() {}
  /// Shape and place of another tensor, sharing its storage (the caller counts the reference),
  /// without its history.
  TensorImpl(const TensorImpl& other, std::uint8_t kept_flags)
      : dtype(other.dtype),
        flags(other.load_flags() & kept_flags),
        dim(other.dim),
        device(other.device),
        numel(other.numel),
        data(other.load_data()),
        storage(other.storage),
        offset(other.offset),
        base() {
    for (int d = 0; d < dim; ++d) {
      sizes[d] = other.sizes[d];
      strides[d] = other.strides[d];
    }
  }
  ~TensorImpl() {
    if (has(kIsView)) base.~Tensor();
  }
  TensorImpl(const TensorImpl&) = delete;
  TensorImpl& operator=(const TensorImpl&) = delete;

  static void* operator new(std::size_t size) { return small_allocate(size); }
  static void operator delete(void* p, std::size_t size) { small_free(p, size); }

  /// Whether nobody holds another handle; then what others did with theirs has happened.
  bool unique() const noexcept { return __atomic_load_n(&references, __ATOMIC_ACQUIRE) == 1; }
  /// Another thread may be about to give a view its present history.
  std::uint8_t load_flags() const { return __atomic_load_n(&flags, __ATOMIC_RELAXED); }
  bool has(Flag flag) const { return load_flags() & flag; }
  void set(Flag flag, bool on = true) { on ? change(flag, 0) : change(0, flag); }
  void change(int set, int clear) {
    const int now = (load_flags() | set) & ~clear;
    __atomic_store_n(&flags, static_cast<std::uint8_t>(now), __ATOMIC_RELAXED);
  }
  IntList size_list() const { return {sizes, dim}; }
  IntList stride_list() const { return {strides, dim}; }
  bool requires_grad() const { return has(kRequiresGrad); }
  /// As Storage::load_data.
  std::byte* load_data() const { return __atomic_load_n(&data, __ATOMIC_ACQUIRE); }
  template <class T>
  T* typed() const {
    return reinterpret_cast<T*>(data);
  }

  /// Sets sizes, strides, numel and the contiguity flag.
  void set_layout(IntList new_sizes, IntList new_strides);
};
static_assert(sizeof(TensorImpl) <= 256);

/// Strides of a dense tensor in the given format (`preserve` counts as contiguous).
Dims dense_strides(IntList sizes, MemoryFormat format);
/// Product of sizes. Throws ShapeError for negative sizes or if those that are not 0 multiply to
/// more than 2^63, so that strides and offsets of what has no elements do not overflow either.
std::int64_t checked_numel(IntList sizes, const char* what);

/// A dense tensor with uninitialised elements.
Tensor new_tensor(IntList sizes, DType dtype, Device device, MemoryFormat format = kContiguous);
/// A dense tensor with explicit strides that leave no gaps.
Tensor new_strided(IntList sizes, IntList strides, DType dtype, Device device);
/// A tensor over the same elements, without history. `offset` in elements from the storage's start.
Tensor alias(const TensorImpl& base, IntList sizes, IntList strides, std::int64_t offset);
/// The same, of equal shape.
Tensor alias(const TensorImpl& base);
/// The same of an op's result, which no other thread can have seen.
Tensor alias_of_result(const TensorImpl& result);
/// Shape and dtype of `like` without storage: what a gradient rule needs to know of an input.
Tensor shape_only(const TensorImpl& like);
/// A new dense contiguous tensor like `like`, which is contiguous itself. The dispatcher's fast
/// path.
TensorImpl* new_contiguous_like(const TensorImpl& like);

inline bool same_sizes(const TensorImpl& a, const TensorImpl& b) {
  if (a.dim != b.dim) return false;
  for (int d = 0; d < a.dim; ++d) {
    if (a.sizes[d] != b.sizes[d]) return false;
  }
  return true;
}

/// True for a view whose elements got a new history, by an in-place write to another view of them,
/// after it was taken.
inline bool has_stale_history(const TensorImpl& impl) {
  if (!impl.has(TensorImpl::kIsView) || !impl.storage) return false;
  const std::uint32_t taken = __atomic_load_n(&impl.view_history, __ATOMIC_ACQUIRE);
  return impl.storage->histories.stale(impl.family, taken, impl.requires_grad());
}
/// Says that `view` has the present history of its elements.
inline void set_current(TensorImpl& view) {
  if (!view.storage) return;
  __atomic_store_n(&view.view_history, view.storage->histories.count(), __ATOMIC_RELEASE);
}
/// True for a tensor that requires a gradient and has no history: whose gradient is kept.
inline bool is_leaf_with_gradient(const TensorImpl& impl) {
  return impl.requires_grad() && (!impl.node || impl.has(TensorImpl::kIsLeafVariable));
}
/// Makes `view` one of `tensor`, with which it shares elements and histories. Its base is the
/// tensor whose history writes into it continue; a leaf, which refuses them, may be a view itself.
inline void set_view_of(const Tensor& tensor, TensorImpl& view) {
  const TensorImpl& impl = *tensor.impl();
  view.set(TensorImpl::kIsView);
  view.family = impl.family;
  view.base = impl.has(TensorImpl::kIsView) && !is_leaf_with_gradient(impl) ? impl.base : tensor;
  set_current(view);
}
/// Nobody else has the elements: makes the view a tensor of its own.
inline void end_view(TensorImpl& view) {
  view.set(TensorImpl::kIsView, false);
  view.base = Tensor();
}
/// True if no other tensor has its elements but a base that nobody else knows.
inline bool alone_in_storage(const TensorImpl& impl) {
  const std::int32_t tensors = __atomic_load_n(&impl.storage->references, __ATOMIC_ACQUIRE);
  return tensors == 1 || (tensors == 2 && impl.base.defined() && impl.base.impl()->unique());
}
/// True if only the caller's handle knows this tensor and only this tensor its storage: nobody can
/// see the elements afterwards, a recorded history included, which would hold a reference.
inline bool is_dead(const TensorImpl& impl) {
  return impl.unique() && impl.storage && alone_in_storage(impl) &&
         !impl.has(TensorImpl::kIsLeafVariable) && impl.data && !impl.storage->context;
}

/// True if the elements lie densely in row-major or, for 4-d, channels_last order.
bool is_contiguous(const TensorImpl& impl, MemoryFormat format);
/// True if the elements fill their memory range without gaps or overlap, in any order.
bool is_dense(const TensorImpl& impl);
/// Strides of a dense tensor of the same size whose dimensions follow each other in memory as those
/// of `impl` do: row-major where elements share memory or go backwards.
Dims dense_strides_like(const TensorImpl& impl);

/// Wraps negative dimensions; throws IndexError naming `op`.
int wrap_dim(std::int64_t d, int dims, const char* op);

}  // namespace facula
