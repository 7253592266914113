#include <facula/ops.h>

#include "ops/schema/op_def.h"

namespace facula {
namespace {

Dims pair(IntList list) { return list.size() == 1 ? Dims::filled(2, list[0]) : Dims(list); }

}  // namespace

// The transpose of a convolution is the gradient of its input.
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        IntList stride, IntList padding, IntList output_padding,
                        std::int64_t groups, IntList dilation) {
  check<ShapeError>(input.dim() == 4 && weight.dim() == 4 && input.sizes()[1] == weight.sizes()[0],
                    "conv_transpose2d: input has size {} and weight {}, expected [N, C, H, W] and "
                    "[C, out / groups, H, W]",
                    input.sizes(), weight.sizes());
  const Dims steps = pair(stride), pads = pair(padding), extra = pair(output_padding),
             spread = pair(dilation);
  Dims sizes = {input.sizes()[0], weight.sizes()[1] * groups};
  for (int d = 0; d < 2; ++d) {
    check<ValueError>(
        extra[d] >= 0 && (extra[d] < steps[d] || extra[d] < spread[d]),
        "conv_transpose2d: output_padding is {}, must be less than stride or dilation", extra);
    const auto k = static_cast<std::size_t>(d) + 2;
    sizes.push_back((input.sizes()[k] - 1) * steps[d] - 2 * pads[d] +
                    spread[d] * (weight.sizes()[k] - 1) + 1 + extra[d]);
  }
  const Tensor result = conv2d_backward_input(input, weight, sizes, steps, pads, spread, groups);
  return bias.defined() ? result + reshape(bias, {sizes[1], 1, 1}) : result;
}

namespace ops {

CompositeDef define_conv_transpose2d() {
  return {
      .signature =
          "conv_transpose2d(Tensor input, Tensor weight, Tensor? bias=None, "
          "int[2] stride=1, int[2] padding=0, int[2] output_padding=0, int groups=1, "
          "int[2] dilation=1) -> Tensor",
      .doc =
          "Transposed convolution.  input: [N, C, H, W], weight: [C, OC / groups, kH, kW], bias: "
          "[OC] -> [N, OC, oH, oW].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3, 4, 4}), s.normal({3, 5, 3, 3}), s.normal({5})});
            s.add({s.normal({1, 4, 3, 3}), s.normal({4, 2, 3, 3}), NoneType{}, Dims{2}, Dims{1},
                   Dims{1}, 2});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({1, 3, 4, 4}), e.normal({4, 3, 3, 3})}, "expected [N, C, H, W]");
            e.fails({e.normal({1, 3, 4, 4}), e.normal({3, 3, 3, 3}), NoneType{}, Dims{1}, Dims{0},
                     Dims{1}},
                    "must be less");
          },
  };
}

}  // namespace ops
}  // namespace facula
