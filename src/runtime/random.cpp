// Random factory functions.
#include <facula/generator.h>
#include <facula/ops.h>

#include "base/check.h"
#include "core/tensor_impl.h"
#include "ops/schema/random.h"
#include "runtime/mode.h"

namespace facula {
namespace {

Tensor random(IntList sizes, const TensorOptions& options, Generator* generator,
              const char* distribution) {
  runtime::ModeGuard no_grad(runtime::kNoGrad);
  const DType dtype = options.dtype.value_or(get_default_dtype());
  check<DTypeError>(is_floating_point(dtype), "rand, randn: {} is no floating dtype; use randint",
                    name_of(dtype));
  // Storage-only dtypes get rounded float32 values.
  const DType drawn = dtype == kFloat64 ? kFloat64 : kFloat32;
  const Tensor state = reserve_random(generator, checked_numel(sizes, "rand"), drawn);
  Tensor values = philox_random(state, sizes, drawn, distribution).to(dtype).to(options.device);
  if (options.requires_grad) values.requires_grad_();
  return values;
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
  return random(sizes, options, generator, "uniform");
}

Tensor randn(IntList sizes, const TensorOptions& options, Generator* generator) {
  return random(sizes, options, generator, "normal");
}

Tensor randint(std::int64_t low, std::int64_t high, IntList sizes, const TensorOptions& options,
               Generator* generator) {
  check<ValueError>(low < high, "randint: the range [{}, {}) is empty", low, high);
  runtime::ModeGuard no_grad(runtime::kNoGrad);
  Tensor values = random_bits(sizes, generator);
  auto* data = values.impl()->typed<std::int64_t>();
  const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  for (std::int64_t i = 0; i < values.numel(); ++i) data[i] = low + scaled(data[i], range);
  return values.to(options.dtype.value_or(kInt64)).to(options.device);
}

Tensor randperm(std::int64_t n, Generator* generator) {
  check<ValueError>(n >= 0, "randperm: n is {}, must not be negative", n);
  runtime::ModeGuard no_grad(runtime::kNoGrad);
  const Tensor bits = random_bits({n}, generator);
  Tensor permutation = arange(n);
  auto* order = permutation.impl()->typed<std::int64_t>();
  const auto* random = bits.impl()->typed<std::int64_t>();
  for (std::int64_t i = n - 1; i > 0; --i) {
    std::swap(order[i], order[scaled(random[i], static_cast<std::uint64_t>(i) + 1)]);
  }
  return permutation;
}

}  // namespace facula
