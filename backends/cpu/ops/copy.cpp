// Copies between layouts and dtypes.
#include <cstring>

#include "backends/cpu/elementwise.h"
#include "backends/cpu/kernels/convert.h"
#include "backends/cpu/registration.h"
#include "core/tensor_impl.h"

namespace facula::cpu {
namespace {

void copy(const Tensor& source, const Tensor& destination) {
  const ConvertRow& row = convert_kernels().rows[static_cast<int>(source.dtype())];
  const Tensor* inputs[] = {&source};
  run_strided_loop(row.loops[static_cast<int>(destination.dtype())], nullptr, destination, inputs);
}

void to_copy(const KernelArgs& args) { copy(args.in(0), args.out()); }

void write(const KernelArgs& args) {
  const Tensor& destination = args.in(0);
  const Tensor& source = args.in(1);
  const TensorImpl& to = *destination.impl();
  const TensorImpl& from = *source.impl();
  if (to.storage != from.storage || to.numel == 0) return copy(source, destination);
  if (to.data == from.data && to.stride_list() == from.stride_list()) return;
  // Source and destination may overlap: go through a copy.
  const Tensor temporary = new_tensor(source.sizes(), source.dtype(), kCPU);
  copy(source, temporary);
  copy(temporary, destination);
}

}  // namespace

void register_copy() {
  add(OpId::to_copy, {"convert", nullptr, to_copy});
  add(OpId::write_, {"convert", nullptr, write});
}

}  // namespace facula::cpu
