// Losses that sum one term for each pair of elements, in one pass over memory.
#include "ops/attrs/pair_loss.h"

#include <algorithm>

#include "backends/cpu/caches.h"
#include "backends/cpu/kernels/pair_loss.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/schema/loss.h"

namespace facula::cpu {
namespace {

constexpr std::int64_t kSlice = 32768;  // elements

template <class T>
void run(const KernelArgs& args, TermSumOf<T> sum_of) {
  const auto& attrs = args.attrs<ops::pair_loss_attrs>();
  // Elements meet in the order of memory, if it is the same for both.
  const bool ordered = is_dense(*args.in(0).impl()) && is_dense(*args.in(1).impl()) &&
                       args.in(0).strides() == args.in(1).strides();
  const Tensor self = ordered ? args.in(0) : args.in(0).detach().contiguous();
  const Tensor target = ordered ? args.in(1) : args.in(1).detach().contiguous();
  const TermSum<T> sum = sum_of(pair_loss_named(attrs.loss).term);
  check<ValueError>(sum != nullptr, "pair_loss: add {} to kernels/pair_loss.cpp", attrs.loss);
  const T *x = self.impl()->typed<T>(), *y = target.impl()->typed<T>();
  const std::int64_t numel = self.numel(), slices = base::divide_up(numel, kSlice);
  const bool beyond_caches = self.nbytes() + target.nbytes() > most_near_bytes();
  const std::int64_t ahead = !beyond_caches ? 0 : far_last_level() ? 4096 : 2048;
  const Scratch<double> sums(slices);
  base::parallel_for(slices, [&](std::int64_t slice) {
    const std::int64_t begin = slice * kSlice;
    sums[slice] =
        sum(attrs.parameter, x + begin, y + begin, std::min(kSlice, numel - begin), ahead);
  });
  double total = 0;
  for (std::int64_t slice = 0; slice < slices; ++slice) total += sums[slice];
  if (attrs.reduction == "mean") total /= static_cast<double>(numel);
  *args.out().impl()->typed<T>() = static_cast<T>(total);
}

void pair_loss(const KernelArgs& args) {
  const PairLossKernels& kernels = pair_loss_kernels();
  args.in(0).dtype() == kFloat32 ? run(args, kernels.f32) : run(args, kernels.f64);
}

}  // namespace

void register_pair_loss() { add(OpId::pair_loss, {"one pass", nullptr, pair_loss}); }

}  // namespace facula::cpu
