#include "ops/attrs/select.h"

#include "ops/schema/region.h"
#include "ops/schema/view.h"

namespace facula::ops {

OpDef define_select() {
  return view_op({
      .signature = "select(Tensor self, int dim, int index) -> Tensor",
      .doc = "View of one entry of dimension dim, which disappears. A negative index counts from "
             "the end.  self: [*] -> [*] without dim.",
      .infer =
          [](Infer& c) {
            const Tensor& self = c.in(0);
            const auto& a = c.attrs<select_attrs>();
            const Region region = select_region(self.sizes(), self.strides(), a.dim, a.index);
            c.view(region.sizes, region.strides, self.storage_offset() + region.offset);
          },
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<select_attrs>();
            if (Tensor sum = g.take_sum(0); sum.defined()) {
              sum.select(a.dim, a.index).add_(g.grad());
              return g.set(0, std::move(sum));
            }
            g.set(0, select_backward(g.grad(), g.input(0).sizes(), a.dim, a.index));
          },
      .samples =
          [](Samples& s) {
            s.add({s.normal({5}), 0, 2});
            s.add({s.normal({3, 4, 2}), 1, -1});
            s.add({s.normal({3, 4, 2}), -1, 0});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({}), 0, 0}, "0-d tensor");
            e.fails({e.normal({3, 4}), 1, 4}, "out of range");
            e.fails({e.normal({3, 4}), 2, 0}, "out of range");
          },
  });
}

}  // namespace facula::ops
