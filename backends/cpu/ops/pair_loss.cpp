// Losses that sum one term for each pair of elements, in one pass over memory: terms are computed
// block by block into the nearest cache and summed from there, by the loops of the elementwise op
// and of sum.
#include "ops/attrs/pair_loss.h"

#include <algorithm>

#include "backends/cpu/caches.h"
#include "backends/cpu/reduction.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/schema/loss.h"

namespace facula::cpu {
namespace {

constexpr std::int64_t kBlock = 2048, kSliceBlocks = 16;

/// Sum of the terms of the elements [begin, end).
template <class T>
double sum_of_terms(ElementwiseLoop loop, const double& parameter, const T* self, const T* target,
                    std::int64_t begin, std::int64_t end, Reach reach) {
  constexpr std::int64_t kStrides[] = {sizeof(T), sizeof(T), sizeof(T)};
  const ReductionLoops& sum =
      reduction_loops[static_cast<int>(OpId::sum)][static_cast<int>(dtype_of<T>)];
  alignas(64) T terms[kBlock];
  double total = 0;
  for (std::int64_t i = begin; i < end; i += kBlock) {
    const std::int64_t n = std::min(kBlock, end - i);
    char* const operands[] = {reinterpret_cast<char*>(terms),
                              reinterpret_cast<char*>(const_cast<T*>(self + i)),
                              reinterpret_cast<char*>(const_cast<T*>(target + i))};
    loop(&parameter, n, operands, kStrides, reach);
    T part;
    sum.rows(terms, 1, 0, n, sizeof(T), &part);
    total += static_cast<double>(part);
  }
  return total;
}

template <class T>
void run(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::pair_loss_attrs>();
  // Elements meet in the order of memory, if it is the same for both.
  const bool ordered = is_dense(*args.in(0).impl()) && is_dense(*args.in(1).impl()) &&
                       args.in(0).strides() == args.in(1).strides();
  const Tensor self = ordered ? args.in(0) : args.in(0).detach().contiguous();
  const Tensor target = ordered ? args.in(1) : args.in(1).detach().contiguous();
  const ElementwiseLoop loop = elementwise_loops[static_cast<int>(pair_loss_named(attrs.loss).term)]
                                                [static_cast<int>(dtype_of<T>)];
  constexpr std::int64_t kSlice = kBlock * kSliceBlocks;
  const std::int64_t numel = self.numel(), slices = (numel + kSlice - 1) / kSlice;
  const Reach reach =
      self.nbytes() + target.nbytes() > most_near_bytes() ? Reach::far : Reach::near;
  const Scratch<double> sums(slices);
  base::parallel_for(slices, [&](std::int64_t slice) {
    const std::int64_t begin = slice * kSlice;
    sums[slice] =
        sum_of_terms(loop, attrs.parameter, self.impl()->typed<T>(), target.impl()->typed<T>(),
                     begin, std::min(begin + kSlice, numel), reach);
  });
  double total = 0;
  for (std::int64_t slice = 0; slice < slices; ++slice) total += sums[slice];
  if (attrs.reduction == "mean") total /= static_cast<double>(numel);
  *args.out().impl()->typed<T>() = static_cast<T>(total);
}

void pair_loss(const KernelArgs& args) {
  args.in(0).dtype() == kFloat32 ? run<float>(args) : run<double>(args);
}

}  // namespace

void register_pair_loss() { add(OpId::pair_loss, {"one pass", nullptr, pair_loss}); }

}  // namespace facula::cpu
