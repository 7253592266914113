#include "ops/schema/random.h"

#include "base/check.h"
#include "core/tensor_impl.h"

namespace facula {

Generator& default_generator() {
  static Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator().manual_seed(seed); }

Tensor reserve_random(Generator* generator, std::int64_t numel, DType dtype) {
  Generator& source = generator ? *generator : default_generator();
  const std::int64_t per_block = size_of(dtype) == 8 ? 2 : 4;
  Tensor state = new_tensor({2}, kInt64, kCPU);
  auto* words = state.impl()->typed<std::int64_t>();
  words[0] = static_cast<std::int64_t>(source.seed());
  words[1] = static_cast<std::int64_t>(
      source.reserve(static_cast<std::uint64_t>((numel + per_block - 1) / per_block)));
  return state;
}

void check_random_state(const Tensor& state, const char* op) {
  check<ValueError>(
      state.defined() && state.dtype() == kInt64 && state.dim() == 1 && state.numel() == 2,
      "{}: the random state must be an int64 tensor {{seed, offset}}", op);
}

}  // namespace facula
