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
  };

  DType dtype = kFloat32;
  std::uint8_t flags = 0;
  std::uint8_t dim = 0;
  Device device;
  std::uint16_t output_index = 0;  ///< which output of `node` this is
  /// Histories::count() when this view was taken.
  std::uint32_t view_history = 0;
  /// Of histories: that of the detached tensor which this is, or is a view of.
  std::uint32_t family = 0;
  std::int64_t numel = 0;
  std::byte* data = nullptr;  ///< first element; null as in Storage
  Storage* storage = nullptr;
  std::int64_t offset = 0;         ///< of the first element, in elements
  autograd::Node* node = nullptr;  ///< producer, or gradient accumulator of a leaf
  void* binding = nullptr;         ///< slot for tracing
  std::int64_t sizes[kMaxDims];
  std::int64_t strides[kMaxDims];

  TensorImpl() = default;
  /// Shape and place of another tensor, sharing its storage (the caller counts the reference),
  /// without its history.
  TensorImpl(const TensorImpl& other, std::uint8_t kept_flags)
      : dtype(other.dtype),
        flags(other.flags & kept_flags),
        dim(other.dim),
        device(other.device),
        numel(other.numel),
        data(other.load_data()),
        storage(other.storage),
        offset(other.offset) {
    for (int d = 0; d < dim; ++d) {
      sizes[d] = other.sizes[d];
      strides[d] = other.strides[d];
    }
  }
  TensorImpl(const TensorImpl&) = delete;
  TensorImpl& operator=(const TensorImpl&) = delete;

  static void* operator new(std::size_t size) { return small_allocate(size); }
  static void operator delete(void* p, std::size_t size) { small_free(p, size); }

  /// Whether nobody holds another handle; then what others did with theirs has happened.
  bool unique() const noexcept { return __atomic_load_n(&references, __ATOMIC_ACQUIRE) == 1; }
  bool has(Flag flag) const { return flags & flag; }
  void set(Flag flag, bool on = true) {
    flags = static_cast<std::uint8_t>(on ? flags | flag : flags & ~flag);
  }
  IntList size_list() const { return {sizes, dim}; }
  IntList stride_list() const { return {strides, dim}; }
  bool requires_grad() const { return flags & kRequiresGrad; }
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
  return impl.has(TensorImpl::kIsView) && impl.storage &&
         impl.storage->histories.stale(impl.family, impl.view_history, impl.requires_grad());
}
/// Makes `view` one of `base`, with which it shares elements and histories.
inline void set_view_of(const TensorImpl& base, TensorImpl& view) {
  view.set(TensorImpl::kIsView);
  view.family = base.family;
  if (base.storage) view.view_history = base.storage->histories.count();
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
