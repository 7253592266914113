#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"
#include "ops/schema/shape.h"

namespace facula {

Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, double beta,
             double alpha) {
  check_defined("addmm", self, mat1, mat2);
  check<ShapeError>(mat1.dim() == 2 && mat2.dim() == 2 && mat1.sizes()[1] == mat2.sizes()[0],
                    "addmm: matrices of size {} and {} cannot be multiplied; the columns of the "
                    "first must equal the rows of the second",
                    mat1.sizes(), mat2.sizes());
  const Dims sizes = {mat1.sizes()[0], mat2.sizes()[1]};
  check<ShapeError>(broadcast_sizes(self.sizes(), sizes, "addmm") == sizes,
                    "addmm: self of size {} cannot be broadcast to the product's {}", self.sizes(),
                    sizes);
  return in_call("addmm", {&self, &mat1, &mat2}, [&] {
    // One pass where the sum is what the product's epilogue does anyway.
    if (alpha == 1 && beta == 1 && self.dim() == 1 && self.sizes()[0] == mat2.sizes()[1]) {
      return linear(mat1, permute(mat2, {1, 0}), self);
    }
    Tensor product = mm(mat1, mat2);
    if (alpha != 1) product = product * alpha;
    if (beta == 0) return product;
    return (beta == 1 ? self : self * beta) + product;
  });
}

namespace ops {

CompositeDef define_addmm() {
  return {
      .signature =
          "addmm(Tensor self, Tensor mat1, Tensor mat2, float beta=1, float alpha=1) "
          "-> Tensor",
      .doc =
          "beta * self + alpha * (mat1 mat2).  self: broadcastable to [M, N], mat1: [M, K], "
          "mat2: [K, N] -> [M, N]. With beta 0, self is not read.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({5}), s.normal({3, 4}), s.normal({4, 5})});
            s.add({s.normal({3, 5}), s.normal({3, 4}), s.normal({4, 5}), 0.5, 2.0});
            s.add({s.normal({3, 1}), s.normal({3, 4}), s.normal({4, 5}), 0.0});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2}), e.normal({2, 3}), e.normal({2, 3})}, "addmm: matrices");
            e.fails({e.normal({2}), e.normal({2, 3}), e.normal({3, 4})}, "addmm: sizes");
            e.fails({e.normal({5, 2, 4}), e.normal({2, 3}), e.normal({3, 4})},
                    "addmm: self of size [5, 2, 4]");
          },
  };
}

}  // namespace ops
}  // namespace facula
