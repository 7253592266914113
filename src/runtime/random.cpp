// Random factory functions.
#include <facula/generator.h>
#include <facula/ops.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "core/number_range.h"
#include "core/tensor_impl.h"
#include "ops/schema/in_call.h"
#include "ops/schema/random.h"
#include "runtime/mode.h"

namespace facula {
namespace {

Tensor draw(IntList sizes, const TensorOptions& options, Generator* generator,
            const char* distribution) {
  runtime::ModeGuard no_grad(runtime::kNoGrad);
  const DType dtype = options.dtype.value_or(get_default_dtype());
  check<DTypeError>(is_floating_point(dtype),
                    "{} random values cannot be {}, which is no floating dtype; use randint",
                    distribution, name_of(dtype));
  if (options.device.is_null()) return empty(sizes, options);
  // Storage-only dtypes get rounded float32 values.
  const DType drawn = dtype == kFloat64 ? kFloat64 : kFloat32;
  const Tensor state = reserve_random(generator, checked_numel(sizes, "rand"), drawn);
  Tensor values = philox_random(state, sizes, drawn, distribution);
  // Rounding must not reach 1.
  const bool uniform = std::string_view(distribution) == "uniform";
  if (uniform && dtype == kFloat16) values = clamp(values, 0, 1 - 0x1p-11);
  if (uniform && dtype == kBFloat16) values = clamp(values, 0, 1 - 0x1p-8);
  values = values.to(dtype).to(options.device);
  if (options.requires_grad) values.requires_grad_();
  return values;
}

Tensor random(IntList sizes, const TensorOptions& options, Generator* generator,
              const char* distribution, const char* function) {
  return in_call(function, sizes, [&] { return draw(sizes, options, generator, distribution); });
}

/// Maps 64 random bits to [0, range) by taking the high half of the product; the bias is below
/// range / 2^64.
std::int64_t scaled(std::int64_t bits, std::uint64_t range) {
  const auto product = static_cast<unsigned __int128>(static_cast<std::uint64_t>(bits)) * range;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(product >> 64));
}

Tensor random_bits(IntList sizes, Generator* generator) {
  const Tensor state = reserve_random(generator, checked_numel(sizes, "randint"), kInt64);
  return philox_random(state, sizes, kInt64, "bits");
}

}  // namespace

Tensor rand(IntList sizes, const TensorOptions& options, Generator* generator) {
  return random(sizes, options, generator, "uniform", "rand");
}

Tensor randn(IntList sizes, const TensorOptions& options, Generator* generator) {
  return random(sizes, options, generator, "normal", "randn");
}

namespace {

/// Values to store in `tensor`, which the distribution scales: in at least float32.
TensorOptions drawn_for(const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  return {dtype == kFloat16 || dtype == kBFloat16 ? kFloat32 : dtype, tensor.device()};
}

const Tensor& store(const Tensor& tensor, const Tensor& values) {
  return tensor.device().is_null() ? tensor : tensor.copy_(values);
}

/// Values by logical index, whatever the layout of `like`, which they get.
Tensor random_like(const Tensor& like, Generator* generator, const char* distribution,
                   const char* function) {
  check<ValueError>(like.defined(), "{}: the tensor is undefined; give it a value first", function);
  const Tensor values = random(like.sizes(), like.options(), generator, distribution, function);
  if (like.is_contiguous()) return values;
  return store(empty_like(like), values);
}

}  // namespace

Tensor rand_like(const Tensor& like, Generator* generator) {
  return random_like(like, generator, "uniform", "rand_like");
}

Tensor randn_like(const Tensor& like, Generator* generator) {
  return random_like(like, generator, "normal", "randn_like");
}

const Tensor& Tensor::uniform_(double from, double to, Generator* generator) const {
  check<ValueError>(defined(), "uniform_: the tensor is undefined; give it a value first");
  check<ValueError>(from <= to, "uniform_: the range [{}, {}) is empty", from, to);
  const DType drawn = *drawn_for(*this).dtype;
  check<ValueError>(std::isfinite(to - from) && fits(to - from, drawn) && fits(from, dtype()) &&
                        fits(to, dtype()),
                    "uniform_: the range [{}, {}) or its width is beyond the largest {}", from, to,
                    name_of(dtype()));
  return in_call("uniform_", {this}, [&]() -> const Tensor& {
    return store(*this, rand(sizes(), drawn_for(*this), generator) * (to - from) + from);
  });
}

const Tensor& Tensor::normal_(double mean, double std, Generator* generator) const {
  check<ValueError>(defined(), "normal_: the tensor is undefined; give it a value first");
  check<ValueError>(std >= 0, "normal_: the standard deviation is {}, must not be negative", std);
  return in_call("normal_", {this}, [&]() -> const Tensor& {
    return store(*this, randn(sizes(), drawn_for(*this), generator) * std + mean);
  });
}

Tensor randint(std::int64_t low, std::int64_t high, IntList sizes, const TensorOptions& options,
               Generator* generator) {
  check<ValueError>(low < high, "randint: the range [{}, {}) is empty", low, high);
  const DType dtype = options.dtype.value_or(kInt64);
  check<ValueError>(in_range(dtype, low) && in_range(dtype, high - 1),
                    "randint: {} does not hold all of [{}, {}); use a wider dtype", name_of(dtype),
                    low, high);
  // Rounding to a floating dtype must not leave the range.
  const std::int64_t least = rounded_up(dtype, low), most = rounded_down(dtype, high - 1);
  check<ValueError>(least <= most, "randint: {} has no number in [{}, {}); use a wider dtype",
                    name_of(dtype), low, high);
  runtime::ModeGuard no_grad(runtime::kNoGrad);
  if (options.device.is_null()) return empty(sizes, {dtype, kNull});
  Tensor values = in_call("randint", sizes, [&] { return random_bits(sizes, generator); });
  auto* data = values.impl()->typed<std::int64_t>();
  const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  constexpr std::int64_t kSlice = 1 << 14;
  const std::int64_t n = values.numel();
  base::parallel_for(base::divide_up(n, kSlice), [&](std::int64_t slice) {
    const std::int64_t end = std::min(n, (slice + 1) * kSlice);
    for (std::int64_t i = slice * kSlice; i < end; ++i) {
      data[i] = std::clamp(low + scaled(data[i], range), least, most);
    }
  });
  values = values.to(dtype).to(options.device);
  if (options.requires_grad) values.requires_grad_();
  return values;
}

Tensor randperm(std::int64_t n, Generator* generator) {
  check<ValueError>(n >= 0, "randperm: n is {}, must not be negative", n);
  runtime::ModeGuard no_grad(runtime::kNoGrad);
  const Tensor bits = in_call("randperm", {n}, [&] { return random_bits({n}, generator); });
  Tensor permutation = arange(n);
  auto* order = permutation.impl()->typed<std::int64_t>();
  const auto* random = bits.impl()->typed<std::int64_t>();
  for (std::int64_t i = n - 1; i > 0; --i) {
    std::swap(order[i], order[scaled(random[i], static_cast<std::uint64_t>(i) + 1)]);
  }
  return permutation;
}

}  // namespace facula
