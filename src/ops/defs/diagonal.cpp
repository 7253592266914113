#include "ops/attrs/diagonal.h"

#include "ops/schema/region.h"
#include "ops/schema/view.h"

namespace facula::ops {

OpDef define_diagonal() {
  return view_op({
      .signature = "diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
      .doc = "View of a diagonal of two dimensions, which become the last one. offset > 0: above "
             "the main diagonal.  self: [*] -> [*, length] without dim1 and dim2.",
      .infer =
          [](Infer& c) {
            const Tensor& self = c.in(0);
            const auto& a = c.attrs<diagonal_attrs>();
            const Region region =
                diagonal_region(self.sizes(), self.strides(), a.offset, a.dim1, a.dim2);
            c.view(region.sizes, region.strides, self.storage_offset() + region.offset);
          },
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<diagonal_attrs>();
            if (Tensor sum = g.take_sum(0); sum.defined()) {
              sum.diagonal(a.offset, a.dim1, a.dim2).add_(g.grad());
              return g.set(0, std::move(sum));
            }
            g.set(0, diagonal_backward(g.grad(), g.input(0).sizes(), a.offset, a.dim1, a.dim2));
          },
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 3})});
            s.add({s.normal({3, 4}), 1});
            s.add({s.normal({4, 2, 3}), -1, 0, 2});
            s.add({s.normal({2, 3}), 5});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3})}, "no two dimensions");
            e.fails({e.normal({3, 3}), 0, 1, -1}, "name two dimensions");
          },
  });
}

}  // namespace facula::ops
