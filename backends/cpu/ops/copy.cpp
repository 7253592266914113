// Copies between layouts and dtypes.
#include <algorithm>
#include <cstring>

#include "backends/cpu/copy.h"
#include "backends/cpu/elementwise.h"
#include "backends/cpu/kernels/convert.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/transpose.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"

namespace facula::cpu {

void copy_elements(const Tensor& source, const Tensor& destination) {
  constexpr std::int64_t kFewBytes = 1 << 14;  // the plan of a loop would take as long
  const TensorImpl &from = *source.impl(), &to = *destination.impl();
  if (from.dtype == to.dtype) {
    const bool alike = from.has(TensorImpl::kIsContiguous) && to.has(TensorImpl::kIsContiguous) &&
                       same_sizes(from, to);
    if (!alike && (copy_transposed(source, destination) || copy_short_rows(source, destination))) {
      return;
    }
    if (const std::int64_t bytes = destination.nbytes();
        alike && to.numel > 0 && bytes <= kFewBytes) {
      std::memcpy(to.data, from.data, static_cast<std::size_t>(bytes));
      return;
    }
  }
  const ConvertRow& row = convert_kernels().rows[static_cast<int>(source.dtype())];
  const Tensor* inputs[] = {&source};
  run_strided_loop(row.loops[static_cast<int>(destination.dtype())], nullptr, destination, inputs);
}

void zero_elements(const Tensor& dense) {
  constexpr std::int64_t kSliceBytes = 1 << 18;
  const std::int64_t bytes = dense.nbytes();
  base::parallel_for(base::divide_up(bytes, kSliceBytes), [&](std::int64_t slice) {
    const std::int64_t begin = slice * kSliceBytes;
    std::memset(dense.impl()->data + begin, 0,
                static_cast<std::size_t>(std::min(kSliceBytes, bytes - begin)));
  });
}

namespace {

void to_copy(const KernelArgs& args) { copy_elements(args.in(0), args.out()); }

void write(const KernelArgs& args) {
  const Tensor& destination = args.in(0);
  const Tensor& source = args.in(1);
  const TensorImpl& to = *destination.impl();
  const TensorImpl& from = *source.impl();
  if (to.storage != from.storage || to.numel == 0) return copy_elements(source, destination);
  if (to.data == from.data && same_sizes(to, from) && to.stride_list() == from.stride_list())
    return;
  // Source and destination may overlap: go through a copy.
  const Tensor temporary = new_tensor(source.sizes(), source.dtype(), kCPU);
  copy_elements(source, temporary);
  copy_elements(temporary, destination);
}

}  // namespace

void register_copy() {
  add(OpId::to_copy, {"convert", nullptr, to_copy});
  add(OpId::write_, {"convert", nullptr, write});
}

}  // namespace facula::cpu
