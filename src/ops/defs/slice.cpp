#include "ops/attrs/slice.h"

#include "ops/schema/region.h"
#include "ops/schema/view.h"

namespace facula::ops {

OpDef define_slice() {
  return view_op({
      .signature = "slice(Tensor self, int dim=0, int? start=None, int? end=None, int step=1) "
                   "-> Tensor",
      .doc = "View of the entries start, start + step, ... below end of one dimension. Negative "
             "bounds count from the end; bounds beyond it are cut.  self: [*] -> [*] with these "
             "entries in dim.",
      .infer =
          [](Infer& c) {
            const Tensor& self = c.in(0);
            const auto& a = c.attrs<slice_attrs>();
            const Region region =
                slice_region(self.sizes(), self.strides(), a.dim, a.start, a.end, a.step);
            c.view(region.sizes, region.strides, self.storage_offset() + region.offset);
          },
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<slice_attrs>();
            if (Tensor sum = g.take_sum(0); sum.defined()) {
              sum.slice(a.dim, a.start, a.end, a.step).add_(g.grad());
              return g.set(0, std::move(sum));
            }
            g.set(0, slice_backward(g.grad(), g.input(0).sizes(), a.dim, a.start, a.end, a.step));
          },
      .samples =
          [](Samples& s) {
            s.add({s.normal({5, 3})});
            s.add({s.normal({5, 3}), 0, 1, 4});
            s.add({s.normal({4, 6}), 1, -5, -1, 2});
            s.add({s.normal({4, 6}), -1, NoneType{}, 99, 4});
            s.add({s.normal({4}), 0, 3, 1});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({})}, "0-d tensor");
            e.fails({e.normal({3}), 1}, "out of range");
            e.fails({e.normal({3}), 0, 0, 3, 0}, "step is 0");
          },
  });
}

}  // namespace facula::ops
