// The tensor handle.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <facula/device.h>
#include <facula/dims.h>
#include <facula/dtype.h>
#include <facula/error.h>
#include <facula/export.h>
#include <facula/scalar.h>

namespace facula {

class Tensor;
class Generator;
class Index;
struct TensorImpl;

/// How the elements of a 4-d tensor [N, C, H, W] lie in memory. Shapes are always NCHW.
enum class MemoryFormat : std::uint8_t { contiguous, channels_last, preserve };
inline constexpr MemoryFormat kContiguous = MemoryFormat::contiguous;
inline constexpr MemoryFormat kChannelsLast = MemoryFormat::channels_last;
inline constexpr MemoryFormat kPreserve = MemoryFormat::preserve;

/// What a factory function needs beside the shape. Unset dtype: the default dtype.
struct TensorOptions {
  std::optional<DType> dtype = std::nullopt;
  Device device = kCPU;
  bool requires_grad = false;

  TensorOptions() = default;
  TensorOptions(DType type) : dtype(type) {}
  TensorOptions(Device where) : device(where) {}
  TensorOptions(std::optional<DType> type, Device where, bool grad = false)
      : dtype(type), device(where), requires_grad(grad) {}
};

namespace detail {
/// Reference count at the head of every tensor implementation.
struct TensorHead {
  std::int32_t references = 1;
};
FACULA_API void destroy(TensorImpl* impl) noexcept;
/// The element `value` of a `dtype` tensor without its fraction; ValueError outside [least, most].
FACULA_API std::int64_t checked_integer(Scalar value, std::int64_t least, std::int64_t most,
                                        DType dtype);
}  // namespace detail

/// A handle to an n-dimensional strided array; copying the handle shares the array.
///
/// Thread-safety: different handles may be used from different threads at the same time as long as
/// nobody writes to the shared elements; one handle object must not be assigned while another
/// thread reads it. Any number of threads may run inference on one model.
class FACULA_API Tensor {
 public:
  Tensor() noexcept : impl_(nullptr) {}
  Tensor(const Tensor& other) noexcept : impl_(other.impl_) { retain(); }
  Tensor(Tensor&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  Tensor& operator=(const Tensor& other) & noexcept {
    Tensor(other).swap(*this);
    return *this;
  }
  Tensor& operator=(Tensor&& other) & noexcept {
    Tensor(std::move(other)).swap(*this);
    return *this;
  }
  /// Assigning to what an expression gives writes elements: x[0] = y is x[0].copy_(y), and
  /// x.index({Slice(0, 2)}) = 1 is x.index({Slice(0, 2)}).fill_(1). Gradients of x reach y.
  const Tensor& operator=(const Tensor& source) && { return copy_(source); }  // NOLINT(*-assign*)
  const Tensor& operator=(Tensor&& source) && { return copy_(source); }  // NOLINT(*-assign*,*move*)
  const Tensor& operator=(Scalar value) && { return fill_(value); }      // NOLINT(*-assign*)
  ~Tensor() { release(); }

  /// Takes over one reference.
  static Tensor adopt(TensorImpl* impl) noexcept {
    Tensor tensor;
    tensor.impl_ = impl;
    return tensor;
  }
  TensorImpl* impl() const noexcept { return impl_; }
  TensorImpl* leak() noexcept { return std::exchange(impl_, nullptr); }
  void swap(Tensor& other) noexcept { std::swap(impl_, other.impl_); }

  /// False for a default-constructed handle, which stands for "no tensor".
  bool defined() const noexcept { return impl_ != nullptr; }
  bool is_same(const Tensor& other) const noexcept { return impl_ == other.impl_; }

  // --- Metadata ---------------------------------------------------------------------------------
  int dim() const;
  IntList sizes() const;
  IntList strides() const;
  /// Size of dimension `d`; negative counts from the end. Throws IndexError.
  std::int64_t size(std::int64_t d) const;
  std::int64_t stride(std::int64_t d) const;
  std::int64_t numel() const;
  DType dtype() const;
  Device device() const;
  std::int64_t storage_offset() const;
  std::int64_t element_size() const { return static_cast<std::int64_t>(size_of(dtype())); }
  std::int64_t nbytes() const { return numel() * element_size(); }
  bool is_floating_point() const { return facula::is_floating_point(dtype()); }
  bool is_contiguous(MemoryFormat format = kContiguous) const;
  /// channels_last for dense 4-d tensors stored that way, else contiguous.
  MemoryFormat suggest_memory_format() const;
  bool is_view() const;
  /// Number of in-place writes to the elements so far; shared by all views.
  std::uint32_t version() const;
  TensorOptions options() const { return {dtype(), device()}; }

  // --- Elements ---------------------------------------------------------------------------------
  /// Pointer to the first element. Throws DTypeError unless T matches, DeviceError off the CPU.
  /// Inside a module's forward(), what is written through a pointer taken before a call may reach
  /// that call, which may be computed later: take the pointer after it. Since elements may change
  /// unnoticed from now on, backward passes fuse less: to read those of weights, use to_vector().
  template <class T>
  T* data_ptr() const {
    return static_cast<T*>(checked_data(dtype_of<T>));
  }
  void* raw_data() const;
  /// The value of a one-element tensor, converted to T: to bool as != 0, to integers without the
  /// fraction, to float rounded. Throws ShapeError for other sizes, ValueError for what an integer
  /// type T does not hold.
  template <class T = double>
  T item() const {
    const Scalar value = item_scalar();
    if constexpr (std::floating_point<T>) {
      return static_cast<T>(value.to_double());
    } else if constexpr (std::same_as<T, bool>) {
      return value.to_double() != 0;
    } else {
      constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
      constexpr bool within = sizeof(T) < 8 || std::signed_integral<T>;
      return static_cast<T>(detail::checked_integer(
          value, least, within ? static_cast<std::int64_t>(most) : INT64_MAX, dtype()));
    }
  }
  Scalar item_scalar() const;
  /// Elements in row-major order, converted to T.
  template <class T>
  std::vector<T> to_vector() const {
    if constexpr (std::same_as<T, bool>) {  // whose vector has no array of them inside
      const std::vector<std::uint8_t> bytes = to(kBool).to_vector<std::uint8_t>();
      return {bytes.begin(), bytes.end()};
    } else {
      std::vector<T> values(static_cast<std::size_t>(numel()));
      copy_out(values.data(), dtype_of<T>);
      return values;
    }
  }
  /// Printed as PyTorch prints it.
  std::string str() const;

  // --- Indexing ---------------------------------------------------------------------------------
  /// View of entry `i` of the first dimension.
  Tensor operator[](std::int64_t i) const;
  /// Basic indexing with integers, slices, None, Ellipsis: x.index({Slice(0, 2), Ellipsis, 1}).
  Tensor index(std::initializer_list<Index> indices) const;
  Tensor index(const std::vector<Index>& indices) const;
  /// Writes `value` (broadcast) into the indexed part.
  const Tensor& index_put_(std::initializer_list<Index> indices, const Tensor& value) const;
  const Tensor& index_put_(const std::vector<Index>& indices, const Tensor& value) const;

  // --- Conversion -------------------------------------------------------------------------------
  Tensor to(DType dtype, bool non_blocking = false, bool copy = false) const;
  Tensor to(Device device, bool non_blocking = false, bool copy = false) const;
  Tensor to(Device device, DType dtype, bool non_blocking = false, bool copy = false) const;
  Tensor to(MemoryFormat format) const { return contiguous(format); }
  Tensor cpu() const { return to(kCPU); }
  Tensor cuda() const { return to(kCUDA); }
  /// This tensor, or a dense copy in the given format.
  Tensor contiguous(MemoryFormat format = kContiguous) const;
  /// Copies elements from `source` (broadcast, converted). Counts as an in-place write.
  const Tensor& copy_(const Tensor& source, bool non_blocking = false) const;
  /// Throws ValueError for a number out of the dtype's range; unsigned dtypes take -1 for their
  /// largest, and so on.
  const Tensor& fill_(Scalar value) const;
  const Tensor& zero_() const;
  /// Writes `value` where `mask`, bool of a size that broadcasts to this one, is true.
  const Tensor& masked_fill_(const Tensor& mask, Scalar value) const;
  /// Ops of the same names, written back.
  const Tensor& add_(const Tensor& other, Scalar alpha) const;
  const Tensor& sub_(const Tensor& other, Scalar alpha) const;
  const Tensor& gelu_(std::string_view approximate = "none") const;
  const Tensor& logical_not_() const;
  const Tensor& scatter_(std::int64_t dim, const Tensor& index, const Tensor& src) const;
  const Tensor& scatter_add_(std::int64_t dim, const Tensor& index, const Tensor& src) const;
  const Tensor& index_add_(std::int64_t dim, const Tensor& index, const Tensor& source,
                           double alpha = 1) const;
  /// Fills a floating tensor with random values: uniform on [from, to), which rounding to the dtype
  /// may leave for `to`, or normal.
  const Tensor& uniform_(double from = 0, double to = 1, Generator* generator = nullptr) const;
  const Tensor& normal_(double mean = 0, double std = 1, Generator* generator = nullptr) const;

  // --- Autograd ---------------------------------------------------------------------------------
  bool requires_grad() const;
  /// Marks a leaf for differentiation. Throws AutogradError for non-floating dtypes or non-leaves.
  const Tensor& requires_grad_(bool requires_grad = true) const;
  bool is_leaf() const;
  /// The accumulated gradient of a leaf (or of a tensor after retain_grad()); undefined before.
  /// Gradients of float16 and bfloat16 tensors are float32: sums in 16 bits would lose too much.
  Tensor grad() const;
  void set_grad(const Tensor& grad) const;
  void retain_grad() const;
  /// Shares the elements but not the history.
  Tensor detach() const;
  /// Accumulates d(this)/d(leaf) into every leaf's grad(). `gradient` defaults to 1 for one
  /// element.
  void backward(const Tensor& gradient = {}, bool retain_graph = false,
                bool create_graph = false) const;

  // --- Ops --------------------------------------------------------------------------------------
#include <facula/tensor_methods.inc>

 private:
  void retain() const noexcept {
    if (impl_) __atomic_fetch_add(&head().references, 1, __ATOMIC_RELAXED);
  }
  // The sole owner needs no locked instruction: nobody else can change a count of one.
  void release() noexcept {
    if (impl_ && (__atomic_load_n(&head().references, __ATOMIC_ACQUIRE) == 1 ||
                  __atomic_fetch_sub(&head().references, 1, __ATOMIC_ACQ_REL) == 1)) {
      detail::destroy(impl_);
    }
  }
  detail::TensorHead& head() const noexcept {
    return *reinterpret_cast<detail::TensorHead*>(impl_);
  }
  void* checked_data(DType expected) const;
  void copy_out(void* destination, DType dtype) const;

  TensorImpl* impl_;  // NOLINT(*-member-init): Clang lacks it in Tensor() of default arguments
};

FACULA_API std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);
FACULA_API std::ostream& operator<<(std::ostream& stream, IntList sizes);
FACULA_API std::ostream& operator<<(std::ostream& stream, DType dtype);
FACULA_API std::ostream& operator<<(std::ostream& stream, Device device);
FACULA_API std::ostream& operator<<(std::ostream& stream, const Scalar& value);

/// One entry of a basic index: Slice(1, None) is PyTorch's 1:, Slice(None, -1) is :-1.
struct Slice {
  std::optional<std::int64_t> start, stop;
  std::int64_t step = 1;

  Slice() = default;
  Slice(std::optional<std::int64_t> first, std::optional<std::int64_t> last = std::nullopt,
        std::int64_t stride = 1)
      : start(first), stop(last), step(stride) {}
};
/// No value, also for parameters that may have none: clamp(x, None, 1).
struct NoneType {
  template <class T>
  constexpr operator std::optional<T>() const {
    return std::nullopt;
  }
};
struct EllipsisType {};
inline constexpr NoneType None{};
inline constexpr EllipsisType Ellipsis{};

class Index {
 public:
  enum class Kind : std::uint8_t { integer, slice, none, ellipsis };

  template <std::integral T>
  Index(T position) : kind(Kind::integer), integer(static_cast<std::int64_t>(position)) {}
  Index(bool) = delete;  // x[True] of PyTorch adds a dimension, and is no entry 1
  Index(Slice range) : kind(Kind::slice), slice(range) {}
  Index(NoneType) : kind(Kind::none) {}
  Index(EllipsisType) : kind(Kind::ellipsis) {}

  Kind kind;
  std::int64_t integer = 0;
  Slice slice;
};

// --- Creation ------------------------------------------------------------------------------------
/// Uninitialised.
FACULA_API Tensor empty(IntList sizes, const TensorOptions& options = {},
                        MemoryFormat format = kContiguous);
FACULA_API Tensor empty_like(const Tensor& like, MemoryFormat format = kPreserve);
FACULA_API Tensor full(IntList sizes, Scalar value, const TensorOptions& options = {});
FACULA_API Tensor full_like(const Tensor& like, Scalar value);
FACULA_API Tensor zeros(IntList sizes, const TensorOptions& options = {});
FACULA_API Tensor ones(IntList sizes, const TensorOptions& options = {});
FACULA_API Tensor zeros_like(const Tensor& like);
FACULA_API Tensor ones_like(const Tensor& like);
FACULA_API Tensor eye(std::int64_t n, const TensorOptions& options = {});
/// start, start + step, ... below end. dtype int64 if all three are integers, which are exact.
FACULA_API Tensor arange(Scalar start, Scalar end, Scalar step = 1,
                         const TensorOptions& options = {});
FACULA_API Tensor arange(Scalar end, const TensorOptions& options = {});
FACULA_API Tensor linspace(double start, double end, std::int64_t steps,
                           const TensorOptions& options = {});
/// A 0-d tensor.
FACULA_API Tensor tensor(Scalar value, const TensorOptions& options = {});
/// A tensor with copies of `values` in row-major order; sizes default to one dimension. Unset
/// dtype: bool of booleans, int64 of integers, else the default dtype. T: bool, std::uint8_t,
/// std::int32_t, std::int64_t, float or double. Throws ValueError for values that a given integer
/// dtype does not hold; unsigned dtypes take negative integers as fill_() does.
template <class T>
FACULA_API Tensor tensor(const std::vector<T>& values, IntList sizes = {-1},
                         const TensorOptions& options = {});
/// The same for a braced list: tensor({1, 2, 3}) is int64, tensor({1, 0.5}) is floating.
FACULA_API Tensor tensor(std::initializer_list<Scalar> values, IntList sizes = {-1},
                         const TensorOptions& options = {});
/// Wraps memory owned by the caller, who keeps it alive; `deleter(context)` runs with the last
/// user.
FACULA_API Tensor from_blob(void* data, IntList sizes, DType dtype,
                            void (*deleter)(void* context) = nullptr, void* context = nullptr);

// --- Random numbers ------------------------------------------------------------------------------
// Philox4x32-10; values depend on seed, offset and logical element index only, never on threads or
// memory order. `generator`: null for the default generator.
/// Uniform on [0, 1).
FACULA_API Tensor rand(IntList sizes, const TensorOptions& options = {},
                       Generator* generator = nullptr);
/// Standard normal.
FACULA_API Tensor randn(IntList sizes, const TensorOptions& options = {},
                        Generator* generator = nullptr);
/// Of the size, dtype and layout of `like`, which is floating.
FACULA_API Tensor rand_like(const Tensor& like, Generator* generator = nullptr);
FACULA_API Tensor randn_like(const Tensor& like, Generator* generator = nullptr);
/// Integers in [low, high), int64 by default. Throws ValueError if the dtype does not hold them.
FACULA_API Tensor randint(std::int64_t low, std::int64_t high, IntList sizes,
                          const TensorOptions& options = {}, Generator* generator = nullptr);
/// A random permutation of 0 .. n-1, int64.
FACULA_API Tensor randperm(std::int64_t n, Generator* generator = nullptr);

}  // namespace facula

#include <facula/ops.h>
