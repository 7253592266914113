#include "ops/attrs/conv2d_fused.h"

#include <facula/ops.h>

#include "ops/schema/channels.h"
#include "ops/schema/convolution.h"
#include "ops/schema/op_def.h"

namespace facula::ops {
namespace {

constexpr const char* kName = "conv2d_fused";

/// The same for all that is added or multiplied.
void check_operand(const Tensor& operand, const char* operand_name, const Tensor& input,
                   IntList sizes) {
  check<ShapeError>(operand.sizes() == sizes, "{}: {} of size {}, expected {}", kName, operand_name,
                    operand.sizes(), sizes);
  check_conv_dtypes(kName, input, "input", operand, operand_name);
}

void infer(Infer& c) {
  const auto& a = c.attrs<conv2d_fused_attrs>();
  const ConvShape shape = infer_conv2d(c, kName, {a.stride, a.padding, a.dilation, a.groups});
  const Tensor& input = c.in(0);
  check<ValueError>(c.has(3) == c.has(4), "{}: pass scale and shift, or neither of them", kName);
  check<ValueError>(!c.has(5) || (c.has(3) && a.relu),
                    "{}: a residual is only added between scale, shift and relu; pass these",
                    kName);
  check<ValueError>(!a.cap || a.relu, "{}: a cap belongs to relu; pass relu = true", kName);
  check_cap(a.cap, kName);
  if (c.has(3)) check_operand(c.in(3), "scale", input, IntList(shape.oc));
  if (c.has(4)) check_operand(c.in(4), "shift", input, IntList(shape.oc));
  if (c.has(5)) check_operand(c.in(5), "residual", input, shape.output_sizes());
}

}  // namespace

OpDef define_conv2d_fused() {
  return {
      .signature =
          "conv2d_fused(Tensor input, Tensor weight, Tensor? bias, Tensor? scale, Tensor? shift, "
          "Tensor? residual, bool relu, int[2] stride=1, int[2] padding=0, int[2] dilation=1, "
          "int groups=1, float? cap=None) -> Tensor",
      .doc =
          "conv2d and what follows it, in one pass: channel_affine(conv2d(input, weight, bias), "
          "scale, shift), with relu min(max(... + residual, 0), cap). The bits are those of the "
          "ops one after the other. Give both scale and shift, or neither.  input: [N, C, H, W] "
          "floating, weight: [OC, C / groups, kH, kW], bias, scale, shift: [OC], residual: [N, OC, "
          "oH, oW] -> [N, OC, oH, oW].",
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
            s.add({s.normal({2, 3, 6, 5}), s.normal({4, 3, 3, 2}), s.normal({4}), NoneType{},
                   NoneType{}, NoneType{}, true});
            s.add({s.normal({2, 3, 6, 5}), s.normal({4, 3, 3, 3}), NoneType{}, s.normal({4}),
                   s.normal({4}), NoneType{}, false, Dims{2, 1}, Dims{1}});
            s.add({s.normal({2, 3, 6, 5}), s.normal({4, 3, 3, 3}), s.normal({4}), s.normal({4}),
                   s.normal({4}), s.normal({2, 4, 6, 5}), true, Dims{1}, Dims{1}});
            s.add({s.normal({0, 3, 4, 4}), s.normal({5, 3, 3, 3}), NoneType{}, s.normal({5}),
                   s.normal({5}), NoneType{}, true});
            s.add({s.normal({2, 3, 6, 5}), s.normal({4, 3, 3, 3}), NoneType{}, s.normal({4}),
                   s.normal({4}), NoneType{}, true, Dims{1}, Dims{1}, Dims{1}, 1, 0.75});
          },
      .errors =
          [](ErrorSamples& e) {
            const Tensor x = e.normal({2, 3, 5, 5}), weight = e.normal({4, 3, 3, 3});
            const NoneType none;
            e.fails({x, e.normal({4, 2, 3, 3}), none, none, none, none, true}, "has 3 channels");
            e.fails({x, weight, none, e.normal({4}), none, none, true}, "or neither");
            e.fails({x, weight, none, e.normal({3}), e.normal({4}), none, true}, "scale of size");
            e.fails({x, weight, none, none, none, e.normal({2, 4, 3, 3}), true}, "pass these");
            e.fails({x, weight, none, e.normal({4}), e.normal({4}), e.normal({2, 4, 5, 5}), true},
                    "residual of size");
            e.fails({x, weight, none, none, none, none, false, Dims{1}, Dims{0}, Dims{1}, 1, 6.0},
                    "pass relu");
          },
  };
}

}  // namespace facula::ops
