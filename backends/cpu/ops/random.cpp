// Random tensors and dropout.
#include "backends/cpu/kernels/random.h"
#include "backends/cpu/elementwise.h"
#include "backends/cpu/registration.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/attrs/philox_dropout.h"
#include "ops/attrs/philox_random.h"

namespace facula::cpu {
namespace {

/// A multiple of what one random block yields.
constexpr std::int64_t kSliceElements = 16384;

/// Calls kernel(seed, offset, first, n, place of the first) for slices of the elements.
template <class T, class Kernel>
void fill(Kernel kernel, const Tensor& state, const Tensor& out) {
  const Tensor dense = state.contiguous();
  const auto* words = dense.impl()->typed<std::int64_t>();
  const auto seed = static_cast<std::uint64_t>(words[0]);
  const auto offset = static_cast<std::uint64_t>(words[1]);
  const std::int64_t n = out.numel();
  T* values = out.impl()->typed<T>();
  base::parallel_for(base::divide_up(n, kSliceElements), [&](std::int64_t slice) {
    const std::int64_t first = slice * kSliceElements;
    kernel(seed, offset, first, std::min(kSliceElements, n - first), values + first);
  });
}

void random(const KernelArgs& args) {
  const std::string_view kind = args.attrs<ops::philox_random_attrs>().distribution;
  const RandomKernels& kernels = random_kernels();
  const Tensor& out = args.out();
  if (kind == "bits") return fill<std::int64_t>(kernels.bits, args.in(0), out);
  const bool normal = kind == "normal";
  if (out.dtype() == kFloat64) {
    return fill<double>(normal ? kernels.normal_double : kernels.uniform_double, args.in(0), out);
  }
  fill<float>(normal ? kernels.normal_float : kernels.uniform_float, args.in(0), out);
}

void dropout(const KernelArgs& args) {
  const Tensor& self = args.in(0);
  const double p = args.attrs<ops::philox_dropout_attrs>().p;
  // 0, or the scale of what is kept, by logical index; then one product in the input's layout. The
  // decision is made on float32 values whatever the dtype, so that it does not depend on it; the
  // scale is exact to the dtype.
  const Tensor factors = new_tensor(self.sizes(), kFloat32, kCPU);
  const bool wide = self.dtype() == kFloat64;
  const double kept = p < 1 ? 1 / (1 - p) : 0;
  const float scale = wide ? 1 : static_cast<float>(kept);
  const auto threshold = static_cast<float>(p);
  fill<float>(
      [=](std::uint64_t seed, std::uint64_t offset, std::int64_t first, std::int64_t n, float* to) {
        random_kernels().dropout_factors(seed, offset, first, n, threshold, scale, to);
      },
      args.in(1), factors);
  const Tensor typed = wide ? factors.to(kFloat64).mul_(kept) : factors;
  const Tensor* inputs[] = {&self, &typed};
  run_strided_loop(elementwise_loops[static_cast<int>(OpId::mul)][static_cast<int>(self.dtype())],
                   nullptr, args.out(), inputs);
}

}  // namespace

void register_random() {
  add(OpId::philox_random, {"philox", nullptr, random});
  add(OpId::philox_dropout, {"philox", nullptr, dropout});
}

}  // namespace facula::cpu
