// Factory functions.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "core/number_range.h"
#include "core/tensor_impl.h"
#include "ops/schema/in_call.h"
#include "runtime/dispatch.h"
#include "runtime/mode.h"

namespace facula {
namespace {

Tensor finish(Tensor tensor, const TensorOptions& options) {
  if (runtime::tl_mode & runtime::kInference) tensor.impl()->set(TensorImpl::kInferenceTensor);
  if (options.requires_grad) tensor.requires_grad_();
  return tensor;
}

TensorOptions with_dtype(TensorOptions options) {
  if (!options.dtype) options.dtype = get_default_dtype();
  return options;
}

DType dtype_for(Scalar value, const TensorOptions& options) {
  if (options.dtype) return *options.dtype;
  return value.is_floating() ? get_default_dtype() : value.dtype();
}

Tensor filled(IntList sizes, Scalar value, const TensorOptions& options, const char* op) {
  runtime::ModeGuard no_grad(runtime::kNoGrad);
  const DType dtype = dtype_for(value, options);
  check_fits(value, dtype, op);
  return in_call(op, sizes, [&] {
    Tensor tensor = new_tensor(sizes, dtype, options.device);
    if (!options.device.is_null()) tensor.fill_(value);
    return finish(std::move(tensor), options);
  });
}

void check_format(IntList sizes, MemoryFormat format, const char* op) {
  check<ShapeError>(format != kChannelsLast || sizes.size() == 4,
                    "{}: channels_last needs 4 dimensions, got size {}", op, sizes);
}

Tensor empty_like(const Tensor& like, MemoryFormat format, const char* op) {
  check<ValueError>(like.defined(), "{}: the tensor is undefined; give it a value first", op);
  check_format(like.sizes(), format, op);
  if (format == kPreserve) {
    const Dims strides =
        like.is_contiguous(kPreserve) ? Dims(like.strides()) : dense_strides_like(*like.impl());
    return finish(new_strided(like.sizes(), strides, like.dtype(), like.device()), {});
  }
  return finish(new_tensor(like.sizes(), like.dtype(), like.device(), format), {});
}

Tensor full_like(const Tensor& like, Scalar value, const char* op) {
  runtime::ModeGuard no_grad(runtime::kNoGrad);
  Tensor tensor = empty_like(like, kPreserve, op);
  if (!like.device().is_null()) tensor.fill_(value);
  return tensor;
}

/// Makes values on the CPU, then moves them where the options say.
Tensor place(const Tensor& on_cpu, const TensorOptions& options) {
  runtime::ModeGuard no_grad(runtime::kNoGrad);
  return finish(on_cpu.to(options.device), options);
}

/// value_of(0) to value_of(count - 1), on the CPU; on the null device, which keeps no values, a
/// tensor of their number.
template <class F>
Tensor values_by(const char* op, std::int64_t count, const TensorOptions& options, F value_of) {
  using T = decltype(value_of(count));
  const Tensor values = in_call(op, {count}, [&] {
    return new_tensor({count}, dtype_of<T>, options.device.is_null() ? kNull : kCPU);
  });
  if (options.device.is_null()) return values;
  auto* data = values.impl()->typed<T>();
  constexpr std::int64_t kSlice = 1 << 15;
  base::parallel_for(base::divide_up(count, kSlice), [&](std::int64_t slice) {
    const std::int64_t end = std::min(count, (slice + 1) * kSlice);
    const F value = value_of;  // a copy, which no store can change
    T* const to = data;
    for (std::int64_t i = slice * kSlice; i < end; ++i) to[i] = value(i);
  });
  return values;
}

}  // namespace

Tensor empty(IntList sizes, const TensorOptions& options, MemoryFormat format) {
  const DType dtype = options.dtype.value_or(get_default_dtype());
  check_format(sizes, format, "empty");
  return in_call("empty", sizes,
                 [&] { return finish(new_tensor(sizes, dtype, options.device, format), options); });
}

Tensor empty_like(const Tensor& like, MemoryFormat format) {
  return empty_like(like, format, "empty_like");
}

Tensor full(IntList sizes, Scalar value, const TensorOptions& options) {
  return filled(sizes, value, options, "full");
}

Tensor full_like(const Tensor& like, Scalar value) { return full_like(like, value, "full_like"); }

Tensor zeros(IntList sizes, const TensorOptions& options) {
  return filled(sizes, 0, with_dtype(options), "zeros");
}

Tensor ones(IntList sizes, const TensorOptions& options) {
  return filled(sizes, 1, with_dtype(options), "ones");
}

Tensor zeros_like(const Tensor& like) { return full_like(like, 0, "zeros_like"); }
Tensor ones_like(const Tensor& like) { return full_like(like, 1, "ones_like"); }

Tensor eye(std::int64_t n, const TensorOptions& options) {
  check<ValueError>(n >= 0, "eye: n is {}, must not be negative", n);
  return in_call("eye", {n, n}, [&] {
    if (options.device.is_null()) return empty({n, n}, options);
    Tensor tensor = zeros({n, n}, {options.dtype.value_or(get_default_dtype()), kCPU});
    alias(*tensor.impl(), {n}, {n + 1}, 0).fill_(1);
    return place(tensor, options);
  });
}

namespace {

constexpr char kNoWay[] = "arange: no way from {} to {} in steps of {}; change the step's sign";
constexpr char kTooMany[] = "arange: more elements from {} to {} than int64 can count";

/// In int64, to which fractions are cut off, for doubles cannot tell neighbours beyond 2^53 apart.
Tensor integer_range(Scalar from, Scalar to, Scalar by, const TensorOptions& options) {
  for (const Scalar value : {from, to, by}) check_fits(value, kInt64, "arange");
  const std::int64_t start = from.to_int(), step = by.to_int();
  check<ValueError>(step != 0,
                    "arange: the step {} is 0 as an integer; choose a floating dtype, "
                    "or convert the result",
                    by);
  const __int128 extent = static_cast<__int128>(to.to_int()) - start;
  check<ValueError>(extent == 0 || (extent > 0) == (step > 0), kNoWay, from, to, by);
  const __int128 count = (extent + step - (step > 0 ? 1 : -1)) / step;
  check<ValueError>(count <= INT64_MAX, kTooMany, from, to);
  return values_by("arange", static_cast<std::int64_t>(count), options, [=](std::int64_t i) {
    return static_cast<std::int64_t>(start + static_cast<__int128>(i) * step);
  });
}

Tensor floating_range(Scalar start, Scalar end, Scalar step, const TensorOptions& options) {
  const double way = end.to_double() - start.to_double(), extent = way / step.to_double();
  check<ValueError>(std::isfinite(way) && std::isfinite(step.to_double()),
                    "arange: from {} to {} in steps of {} is no finite way", start, end, step);
  check<ValueError>(extent >= 0, kNoWay, start, end, step);
  check<ValueError>(extent < 9e18, kTooMany, start, end);
  return values_by("arange", static_cast<std::int64_t>(std::ceil(extent)), options,
                   [=](std::int64_t i) {
                     return start.to_double() + static_cast<double>(i) * step.to_double();
                   });
}

}  // namespace

Tensor arange(Scalar start, Scalar end, Scalar step, const TensorOptions& options) {
  const bool fractions = start.is_floating() || end.is_floating() || step.is_floating();
  const DType dtype = options.dtype.value_or(fractions ? get_default_dtype() : kInt64);
  check<ValueError>(step.to_double() != 0, "arange: step is 0");
  const Tensor values = fractions && is_floating_point(dtype)
                            ? floating_range(start, end, step, options)
                            : integer_range(start, end, step, options);
  return place(values.to(dtype), options);
}

Tensor arange(Scalar end, const TensorOptions& options) { return arange(0, end, 1, options); }

Tensor linspace(double start, double end, std::int64_t steps, const TensorOptions& options) {
  check<ValueError>(steps >= 0, "linspace: steps is {}, must not be negative", steps);
  const DType dtype = options.dtype.value_or(get_default_dtype());
  check_fits(start, dtype, "linspace");
  check_fits(end, dtype, "linspace");
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  const Tensor values = values_by("linspace", steps, options, [=](std::int64_t i) {
    // Symmetric in both ends, so that the last value is exactly `end`.
    return i < (steps + 1) / 2 ? start + step * static_cast<double>(i)
                               : end - step * static_cast<double>(steps - 1 - i);
  });
  return place(values.to(dtype), options);
}

namespace {

/// A CPU tensor of `count` values of `dtype` that are still to be written.
Tensor values_of_size(std::size_t count, IntList sizes, DType dtype) {
  const auto flat = static_cast<std::int64_t>(count);
  const IntList shape = sizes.size() == 1 && sizes[0] == -1 ? IntList(flat) : sizes;
  check<ShapeError>(checked_numel(shape, "tensor") == flat, "tensor: {} values do not fill size {}",
                    count, shape);
  return new_tensor(shape, dtype, kCPU);
}

/// `values` as `dtype`, all of which integers must hold.
template <class Values>
void check_values(const Values& values, DType dtype) {
  if (is_floating_point(dtype)) return;
  for (const auto& value : values) check_fits(value, dtype, "tensor");
}

/// The dtype of elements that all belong to the category of `element`.
DType dtype_of_values(DType element, const TensorOptions& options) {
  if (options.dtype) return *options.dtype;
  return is_floating_point(element) ? get_default_dtype() : element == kBool ? kBool : kInt64;
}

}  // namespace

template <class T>
Tensor tensor(const std::vector<T>& values, IntList sizes, const TensorOptions& options) {
  const DType dtype = dtype_of_values(dtype_of<T>, options);
  if (dtype != dtype_of<T>) check_values(values, dtype);
  const Tensor given = values_of_size(values.size(), sizes, dtype_of<T>);
  std::copy(values.begin(), values.end(), given.impl()->typed<T>());
  return place(given.to(dtype), options);
}

template Tensor tensor(const std::vector<bool>&, IntList, const TensorOptions&);
template Tensor tensor(const std::vector<std::uint8_t>&, IntList, const TensorOptions&);
template Tensor tensor(const std::vector<std::int32_t>&, IntList, const TensorOptions&);
template Tensor tensor(const std::vector<std::int64_t>&, IntList, const TensorOptions&);
template Tensor tensor(const std::vector<float>&, IntList, const TensorOptions&);
template Tensor tensor(const std::vector<double>&, IntList, const TensorOptions&);

Tensor tensor(std::initializer_list<Scalar> values, IntList sizes, const TensorOptions& options) {
  DType element = values.size() == 0 ? kFloat64 : kBool;
  for (const Scalar& value : values) element = promote_types(element, value.dtype());
  const DType dtype = dtype_of_values(element, options);
  check_values(values, dtype);
  const bool floating = element == kFloat64;
  const Tensor given = values_of_size(values.size(), sizes, floating ? kFloat64 : kInt64);
  std::int64_t i = 0;
  for (const Scalar& value : values) {
    if (floating) {
      given.impl()->typed<double>()[i++] = value.to_double();
    } else {
      given.impl()->typed<std::int64_t>()[i++] = value.to_int();
    }
  }
  return place(given.to(dtype), options);
}

Tensor tensor(Scalar value, const TensorOptions& options) {
  return tensor(std::initializer_list<Scalar>{value}, {}, options);
}

Tensor from_blob(void* data, IntList sizes, DType dtype, void (*deleter)(void*), void* context) {
  const auto bytes = static_cast<std::size_t>(checked_numel(sizes, "from_blob")) * size_of(dtype);
  check<ValueError>(data != nullptr || bytes == 0, "from_blob: null data for size {}", sizes);
  // The storage calls back with itself and one word; the user's function and its word travel behind
  // that word.
  struct Owner {
    void (*deleter)(void*);
    void* context;
  };
  Storage* storage = nullptr;
  if (deleter) {
    storage = wrap_storage(
        data, bytes, kCPU,
        [](Storage&, void* word) {
          auto* owner = static_cast<Owner*>(word);
          owner->deleter(owner->context);
          delete owner;
        },
        new Owner{deleter, context});
  } else {
    // A storage with a context is not ours to write results into.
    storage = wrap_storage(data, bytes, kCPU, nullptr, data);
  }
  storage->expose();
  auto* impl = new TensorImpl;
  impl->dtype = dtype;
  impl->storage = storage;
  impl->data = static_cast<std::byte*>(data);
  impl->set_layout(sizes, dense_strides(sizes, kContiguous));
  return Tensor::adopt(impl);
}

}  // namespace facula
