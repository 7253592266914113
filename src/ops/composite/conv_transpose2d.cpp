#include <facula/ops.h>

#include <algorithm>
#include <limits>

#include "ops/schema/checks.h"
#include "ops/schema/glue.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {
namespace {

Dims pair(IntList list, const char* argument) {
  return expand_list(list, 2, "conv_transpose2d", argument);
}

}  // namespace

// The transpose of a convolution is the gradient of its input.
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        IntList stride, IntList padding, IntList output_padding,
                        std::int64_t groups, IntList dilation) {
  check_defined("conv_transpose2d", input, weight);
  common_device("conv_transpose2d", {&input, &weight, &bias});
  check<ShapeError>(input.dim() == 4 && weight.dim() == 4 && input.sizes()[1] == weight.sizes()[0],
                    "conv_transpose2d: input has size {} and weight {}, expected [N, C, H, W] and "
                    "[C, out / groups, H, W]",
                    input.sizes(), weight.sizes());
  check<ValueError>(groups > 0 && weight.sizes()[0] % groups == 0,
                    "conv_transpose2d: groups is {}, must divide the {} channels of the input",
                    groups, weight.sizes()[0]);
  const Dims steps = pair(stride, "stride"), pads = pair(padding, "padding"),
             extra = pair(output_padding, "output_padding"), spread = pair(dilation, "dilation");
  Dims sizes = {input.sizes()[0], weight.sizes()[1] * groups}, beyond = {0, 0};
  check<ShapeError>(!bias.defined() || bias.sizes() == IntList(sizes[1]),
                    "conv_transpose2d: bias has size {}, expected [{}], the output channels",
                    bias.defined() ? bias.sizes() : IntList(), sizes[1]);
  // So that the sizes below do not overflow.
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  for (int d = 0; d < 2; ++d) {
    check<ValueError>(steps[d] > 0 && spread[d] > 0 && pads[d] >= 0 &&
                          std::max({steps[d], spread[d], pads[d]}) <= kLargest,
                      "conv_transpose2d: stride {} and dilation {} must be positive, padding {} "
                      "not negative, all less than 2^31",
                      steps, spread, pads);
    check<ValueError>(
        extra[d] >= 0 && (extra[d] < steps[d] || extra[d] < spread[d]),
        "conv_transpose2d: output_padding is {}, must be less than stride or dilation", extra);
    const auto k = static_cast<std::size_t>(d) + 2;
    sizes.push_back((input.sizes()[k] - 1) * steps[d] - 2 * pads[d] +
                    spread[d] * (weight.sizes()[k] - 1) + 1 + extra[d]);
    beyond[d] = extra[d] / steps[d];
    check<ShapeError>(sizes.back() > 0,
                      "conv_transpose2d: input {} and weight {} give an image of size {} with "
                      "stride {}, padding {} and dilation {}; use less padding",
                      input.sizes(), weight.sizes(), sizes.back(), steps, pads, spread);
  }
  return in_call("conv_transpose2d", {&input, &weight, &bias}, [&] {
    // A convolution takes the strides that output_padding holds for further windows: of zeros here.
    const Tensor windows =
        beyond[0] + beyond[1] == 0 ? input : constant_pad(input, {0, beyond[1], 0, beyond[0]});
    const Tensor result =
        conv2d_backward_input(windows, weight, sizes, steps, pads, spread, groups);
    return bias.defined() ? result + reshape(bias, {sizes[1], 1, 1}) : result;
  });
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
            s.add({s.normal({1, 2, 3, 4}), s.normal({2, 3, 3, 2}), s.normal({3}), Dims{2, 1},
                   Dims{1}, Dims{2, 1}, 1, Dims{3, 2}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({1, 3, 4, 4}), e.normal({4, 3, 3, 3})}, "expected [N, C, H, W]");
            e.fails({e.normal({1, 3, 4, 4}), e.normal({3, 3, 3, 3}), NoneType{}, Dims{1}, Dims{0},
                     Dims{1}},
                    "must be less");
            e.fails({e.normal({1, 3, 4, 4}), e.normal({3, 3, 3, 3}), NoneType{}, Dims{0}, Dims{0},
                     Dims{0}, 1, Dims{2}},
                    "must be positive");
            e.fails({e.normal({1, 3, 4, 4}), e.normal({3, 2, 3, 3}), e.normal({3})},
                    "bias has size [3], expected [2]");
            e.fails({e.normal({1, 3, 4, 4}), e.normal({3, 2, 3, 3}), NoneType{}, Dims{1}, Dims{3}},
                    "use less padding");
            e.fails({e.normal({1, 3, 4, 4}), e.normal({3, 2, 3, 3}), NoneType{}, Dims{1}, Dims{0},
                     Dims{0}, 2},
                    "must divide the 3 channels");
          },
  };
}

}  // namespace ops
}  // namespace facula
