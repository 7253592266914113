#include <facula/ops.h>

#include "ops/schema/op_def.h"

namespace facula {

Tensor gelu(const Tensor& self, std::string_view approximate) {
  check<ValueError>(approximate == "none" || approximate == "tanh",
                    "gelu: approximate is \"{}\", expected none or tanh", approximate);
  return approximate == "none" ? gelu_erf(self) : gelu_tanh(self);
}

namespace ops {

CompositeDef define_gelu() {
  return {
      .signature = "gelu(Tensor self, str approximate='none') -> Tensor",
      .doc =
          "Gaussian error linear unit: self * Phi(self), or its approximation with tanh "
          "where approximate is 'tanh'.",
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
