// conv2d_fused as the ops that it stands for: for the convolutions that have no epilogue, and in
// reference mode.
#include <span>

#include "backends/cpu/registration.h"
#include "core/tensor_impl.h"
#include "ops/attrs/channel_affine_relu.h"
#include "ops/attrs/conv2d.h"
#include "ops/attrs/conv2d_fused.h"
#include "ops/attrs/hardtanh.h"
#include "runtime/dispatch.h"

namespace facula::cpu {
namespace {

template <std::size_t n>
void run_into(OpId id, const Tensor* const (&inputs)[n], const void* attrs, Tensor result) {
  runtime::run_into(Call{op(id), inputs, n, attrs}, {&result, 1});
}

void run(const KernelArgs& args) {
  const Tensor& out = args.out();
  if (out.numel() == 0) return;
  const auto& a = args.attrs<ops::conv2d_fused_attrs>();
  const ops::conv2d_attrs conv = {a.stride, a.padding, a.dilation, a.groups};
  run_into(OpId::conv2d, {&args.in(0), &args.in(1), &args.in(2)}, &conv, out);
  // The rest in place.
  if (!args.has(3)) {
    const ops::hardtanh_attrs limits = {0, a.cap.value_or(0)};
    if (a.cap) {
      run_into(OpId::hardtanh, {&out}, &limits, out);
    } else if (a.relu) {
      run_into(OpId::relu, {&out}, nullptr, out);
    }
  } else if (a.relu) {
    const ops::channel_affine_relu_attrs relu = {a.cap};
    run_into(OpId::channel_affine_relu, {&out, &args.in(3), &args.in(4), &args.in(5)}, &relu, out);
  } else {
    run_into(OpId::channel_affine, {&out, &args.in(3), &args.in(4)}, nullptr, out);
  }
}

}  // namespace

void register_conv2d_fused_parts() { add(OpId::conv2d_fused, {"op by op", nullptr, run}); }

}  // namespace facula::cpu
