#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

namespace {

template <class T>
Tensor gelu_of(T&& self, std::string_view approximate) {
  check_defined("gelu", self);
  check<ValueError>(approximate == "none" || approximate == "tanh",
                    "gelu: approximate is \"{}\", expected none or tanh", approximate);
  return approximate == "none" ? gelu_erf(std::forward<T>(self)) : gelu_tanh(std::forward<T>(self));
}

}  // namespace

Tensor gelu(const Tensor& self, std::string_view approximate) { return gelu_of(self, approximate); }
Tensor gelu(Tensor&& self, std::string_view approximate) {
  return gelu_of(std::move(self), approximate);
}

namespace ops {

CompositeDef define_gelu() {
  return {
      .signature = "gelu(Tensor self, str approximate='none') -> Tensor",
      .doc =
          "Gaussian error linear unit: self * Phi(self), or its approximation with tanh where "
          "approximate is 'tanh'.  self: [*] floating -> [*].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4})});
            s.add({s.normal({3, 4}), "tanh"});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), "erf"}, "expected none or tanh");
          },
  };
}

}  // namespace ops
}  // namespace facula
