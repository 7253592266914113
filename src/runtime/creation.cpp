// Factory functions.
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "core/tensor_impl.h"
#include "runtime/dispatch.h"
#include "runtime/mode.h"

namespace facula {
namespace {

Tensor finish(Tensor tensor, const TensorOptions& options) {
  if (runtime::tl_mode & runtime::kInference) tensor.impl()->set(TensorImpl::kInferenceTensor);
  if (options.requires_grad) tensor.requires_grad_();
  return tensor;
}

DType dtype_for(Scalar value, const TensorOptions& options) {
  if (options.dtype) return *options.dtype;
  return value.is_floating() ? get_default_dtype() : value.dtype();
}

/// Makes values on the CPU, then moves them where the options say.
Tensor place(const Tensor& on_cpu, const TensorOptions& options) {
  runtime::ModeGuard no_grad(runtime::kNoGrad);
  return finish(on_cpu.to(options.device), options);
}

}  // namespace

Tensor empty(IntList sizes, const TensorOptions& options, MemoryFormat format) {
  const DType dtype = options.dtype.value_or(get_default_dtype());
  return finish(new_tensor(sizes, dtype, options.device, format), options);
}

Tensor empty_like(const Tensor& like, MemoryFormat format) {
  if (format == kPreserve && like.is_contiguous(kPreserve)) {
    return finish(new_strided(like.sizes(), like.strides(), like.dtype(), like.device()), {});
  }
  return finish(new_tensor(like.sizes(), like.dtype(), like.device(), format), {});
}

Tensor full(IntList sizes, Scalar value, const TensorOptions& options) {
  runtime::ModeGuard no_grad(runtime::kNoGrad);
  Tensor tensor = new_tensor(sizes, dtype_for(value, options), options.device);
  if (!options.device.is_null()) tensor.fill_(value);
  return finish(std::move(tensor), options);
}

Tensor full_like(const Tensor& like, Scalar value) {
  runtime::ModeGuard no_grad(runtime::kNoGrad);
  Tensor tensor = empty_like(like);
  if (!like.device().is_null()) tensor.fill_(value);
  return tensor;
}

Tensor zeros(IntList sizes, const TensorOptions& options) {
  return full(sizes, 0,
              {options.dtype.value_or(get_default_dtype()), options.device, options.requires_grad});
}

Tensor ones(IntList sizes, const TensorOptions& options) {
  return full(sizes, 1,
              {options.dtype.value_or(get_default_dtype()), options.device, options.requires_grad});
}

Tensor zeros_like(const Tensor& like) { return full_like(like, 0); }
Tensor ones_like(const Tensor& like) { return full_like(like, 1); }

Tensor eye(std::int64_t n, const TensorOptions& options) {
  check<ValueError>(n >= 0, "eye: n is {}, must not be negative", n);
  Tensor tensor = zeros({n, n}, {options.dtype.value_or(get_default_dtype()), kCPU});
  alias(*tensor.impl(), {n}, {n + 1}, 0).fill_(1);
  return place(tensor, options);
}

Tensor arange(Scalar start, Scalar end, Scalar step, const TensorOptions& options) {
  const bool floating = start.is_floating() || end.is_floating() || step.is_floating();
  check<ValueError>(step.to_double() != 0, "arange: step is 0");
  const double extent = (end.to_double() - start.to_double()) / step.to_double();
  check<ValueError>(extent >= 0 && extent < 9e18,
                    "arange: no way from {} to {} in steps of {}; change the step's sign", start,
                    end, step);
  const DType dtype = options.dtype.value_or(floating ? get_default_dtype() : kInt64);
  const auto count = static_cast<std::int64_t>(std::ceil(extent));
  Tensor values = new_tensor({count}, floating ? kFloat64 : kInt64, kCPU);
  for (std::int64_t i = 0; i < count; ++i) {
    if (floating) {
      values.impl()->typed<double>()[i] =
          start.to_double() + static_cast<double>(i) * step.to_double();
    } else {
      values.impl()->typed<std::int64_t>()[i] = start.to_int() + i * step.to_int();
    }
  }
  return place(values.to(dtype), options);
}

Tensor arange(Scalar end, const TensorOptions& options) { return arange(0, end, 1, options); }

Tensor linspace(double start, double end, std::int64_t steps, const TensorOptions& options) {
  check<ValueError>(steps >= 0, "linspace: steps is {}, must not be negative", steps);
  Tensor values = new_tensor({steps}, kFloat64, kCPU);
  auto* data = values.impl()->typed<double>();
  for (std::int64_t i = 0; i < steps; ++i) {
    const double t = steps == 1 ? 0 : static_cast<double>(i) / static_cast<double>(steps - 1);
    // Symmetric in both ends, so that the last value is exactly `end`.
    data[i] = t < 0.5 ? start + (end - start) * t : end - (end - start) * (1 - t);
  }
  return place(values.to(options.dtype.value_or(get_default_dtype())), options);
}

Tensor tensor(Scalar value, const TensorOptions& options) { return full({}, value, options); }

Tensor tensor(const std::vector<double>& values, IntList sizes, const TensorOptions& options) {
  const auto count = static_cast<std::int64_t>(values.size());
  const std::int64_t flat = count;
  const IntList shape = sizes.size() == 1 && sizes[0] == -1 ? IntList(flat) : sizes;
  check<ShapeError>(checked_numel(shape, "tensor") == count,
                    "tensor: {} values do not fill size {}", count, shape);
  Tensor wide = new_tensor(shape, kFloat64, kCPU);
  if (count > 0) std::memcpy(wide.raw_data(), values.data(), values.size() * sizeof(double));
  return place(wide.to(options.dtype.value_or(get_default_dtype())), options);
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
  auto* impl = new TensorImpl;
  impl->dtype = dtype;
  impl->storage = storage;
  impl->data = static_cast<std::byte*>(data);
  impl->set_layout(sizes, dense_strides(sizes, kContiguous));
  return Tensor::adopt(impl);
}

}  // namespace facula
