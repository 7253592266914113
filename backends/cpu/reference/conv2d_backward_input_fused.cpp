// conv2d_backward_input_fused as the ops that it stands for: where Winograd does not compute the
// gradient, and in reference mode.
#include "ops/attrs/conv2d_backward_input_fused.h"
#include "backends/cpu/registration.h"
#include "core/tensor_impl.h"
#include "ops/attrs/conv2d_backward_input.h"
#include "runtime/dispatch.h"

namespace facula::cpu {
namespace {

void run(const KernelArgs& args) {
  Tensor out = args.out();
  const auto run_into = [&out](OpId id, const Tensor& a, const Tensor& b, const void* attrs) {
    const Tensor* inputs[] = {&a, &b};
    runtime::run_into(Call{op(id), inputs, 2, attrs}, {&out, 1});
  };
  if (out.numel() == 0) return;
  const auto& a = args.attrs<ops::conv2d_backward_input_fused_attrs>();
  const ops::conv2d_backward_input_attrs gradient = {a.input_size, a.stride, a.padding, a.dilation,
                                                     a.groups};
  run_into(OpId::conv2d_backward_input, args.in(0), args.in(1), &gradient);
  // The rest in place.
  if (args.has(2)) run_into(OpId::add, out, args.in(2), nullptr);
  if (args.has(3)) run_into(OpId::relu_backward, out, args.in(3), nullptr);
}

}  // namespace

void register_conv2d_backward_input_fused_parts() {
  add(OpId::conv2d_backward_input_fused, {"op by op", nullptr, run});
}

}  // namespace facula::cpu
