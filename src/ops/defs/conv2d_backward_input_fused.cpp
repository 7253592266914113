#include "ops/attrs/conv2d_backward_input_fused.h"

#include <facula/ops.h>

#include "ops/schema/convolution.h"
#include "ops/schema/op_def.h"

namespace facula::ops {
namespace {

constexpr const char* kName = "conv2d_backward_input_fused";

void infer(Infer& c) {
  const auto& a = c.attrs<conv2d_backward_input_fused_attrs>();
  infer_conv2d_backward_input(c, kName, a.input_size, {a.stride, a.padding, a.dilation, a.groups});
  constexpr const char* kOperands[] = {"residual", "rectified"};
  for (int i = 0; i < 2; ++i) {
    if (!c.has(2 + i)) continue;
    const Tensor& operand = c.in(2 + i);
    check<ShapeError>(operand.sizes() == a.input_size, "{}: {} of size {}, expected {}", kName,
                      kOperands[i], operand.sizes(), a.input_size);
    check_conv_dtypes(kName, c.in(0), "grad", operand, kOperands[i]);
  }
}

}  // namespace

OpDef define_conv2d_backward_input_fused() {
  return {
      .signature =
          "conv2d_backward_input_fused(Tensor grad, Tensor weight, Tensor? residual, "
          "Tensor? rectified, int[] input_size, int[2] stride=1, int[2] padding=0, "
          "int[2] dilation=1, int groups=1) -> Tensor",
      .doc =
          "conv2d_backward_input and what follows it in a backward pass, in one pass over its "
          "result: another gradient of the same tensor is added, and what relu gave, if that made "
          "the tensor, lets it pass: relu_backward(... + residual, rectified). The bits are those "
          "of the ops one after the other.  grad: [N, OC, oH, oW] floating, weight: [OC, C / "
          "groups, kH, kW], residual, rectified: [N, C, H, W] -> [N, C, H, W].",
      .infer = infer,
      .gradient = not_differentiable("it is used where nothing is recorded"),
      .saves = kSavesNothing,
      .autocast = Autocast::lower,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            const Tensor grad = s.normal({2, 4, 4, 4}), weight = s.normal({4, 3, 3, 2});
            const Dims size{2, 3, 6, 5};
            s.add({grad, weight, s.normal(size), NoneType{}, size});
            s.add({grad, weight, NoneType{}, s.normal(size), size});
            s.add({grad, weight, s.normal(size), s.normal(size), size});
            s.add({s.normal({2, 6, 3, 3}), s.normal({6, 2, 3, 3}), s.normal({2, 4, 5, 5}),
                   s.normal({2, 4, 5, 5}), Dims{2, 4, 5, 5}, Dims{2}, Dims{1}, Dims{1}, 2});
            s.add({s.normal({0, 4, 4, 4}), weight, NoneType{}, s.normal({0, 3, 6, 5}),
                   Dims{0, 3, 6, 5}});
          },
      .errors =
          [](ErrorSamples& e) {
            const Tensor grad = e.normal({2, 4, 4, 4}), weight = e.normal({4, 3, 3, 3});
            const Dims size{2, 3, 6, 6};
            const NoneType none;
            e.fails({grad, weight, none, none, Dims{2, 3, 5, 5}}, "gives [2, 4, 3, 3]");
            e.fails({grad, weight, e.normal({2, 3, 6, 5}), none, size}, "residual of size");
            e.fails({grad, weight, none, e.normal({3, 6, 6}), size}, "rectified of size");
            e.fails({grad, weight, none, e.normal(size).to(kFloat64), size}, "rectified");
          },
  };
}

}  // namespace facula::ops
