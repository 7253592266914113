#include "ops/attrs/linear_fused.h"

#include <facula/ops.h>

#include "ops/schema/channels.h"
#include "ops/schema/linear.h"

namespace facula::ops {
namespace {

constexpr const char* kName = "linear_fused";

void infer(Infer& c) {
  const auto& a = c.attrs<linear_fused_attrs>();
  infer_linear(c);
  const Tensor& input = c.in(0);
  check<DTypeError>(kFloatingTypes.contains(input.dtype()),
                    "{}: input is {}, expected float32 or float64; convert with to()", kName,
                    name_of(input.dtype()));
  const std::string_view activation = a.activation;
  check<ValueError>(activation == "relu" || activation == "gelu" || activation == "gelu_tanh",
                    "{}: activation is \"{}\", expected relu, gelu or gelu_tanh", kName,
                    activation);
  check<ValueError>(!a.cap || activation == "relu",
                    "{}: a cap belongs to relu, but the activation is {}", kName, activation);
  check_cap(a.cap, kName);
}

}  // namespace

OpDef define_linear_fused() {
  return {
      .signature =
          "linear_fused(Tensor input, Tensor weight, Tensor? bias, str activation, "
          "float? cap=None) -> Tensor",
      .doc =
          "linear and its activation in one pass: relu, at most cap if that is given, gelu or "
          "gelu_tanh of linear(input, weight, bias). The bits are those of the ops one after the "
          "other.  input: [*, in], weight: [out, in], bias: [out] -> [*, out].",
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
            s.add({s.normal({3, 4}), s.normal({5, 4}), s.normal({5}), "relu"});
            s.add({s.normal({3, 4}), s.normal({5, 4}), s.normal({5}), "relu", 0.75});
            s.add({s.normal({2, 3, 4}), s.normal({5, 4}), NoneType{}, "gelu"});
            s.add({s.normal({4}), s.normal({2, 4}), s.normal({2}), "gelu_tanh"});
            s.add({s.normal({4, 3}).permute({1, 0}), s.normal({4, 5}).permute({1, 0}),
                   s.normal({5}), "gelu"});
            s.add({s.normal({0, 4}), s.normal({5, 4}), s.normal({5}), "relu"});
            s.add({s.normal({3, 0}), s.normal({5, 0}), s.normal({5}), "relu"});
          },
      .errors =
          [](ErrorSamples& e) {
            const Tensor x = e.normal({3, 4}), weight = e.normal({5, 4});
            e.fails({e.normal({3, 5}), weight, NoneType{}, "relu"}, "needs 4 values");
            e.fails({x, weight, e.normal({4}), "relu"}, "bias has size");
            e.fails({x, weight, NoneType{}, "sigmoid"}, "expected relu, gelu");
            e.fails({x, weight, NoneType{}, "gelu", 6.0}, "belongs to relu");
            e.fails({x, weight, NoneType{}, "relu", -1.0}, "not positive");
            e.fails({e.integers({3, 4}, 0, 5), e.integers({5, 4}, 0, 5), NoneType{}, "relu"},
                    "expected float32");
          },
  };
}

}  // namespace facula::ops
