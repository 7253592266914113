#include "ops/attrs/expand.h"

#include "core/tensor_impl.h"
#include "ops/schema/shape.h"
#include "ops/schema/view.h"

namespace facula::ops {

OpDef define_expand() {
  return view_op({
      .signature = "expand(Tensor self, int[] size) -> Tensor",
      .doc = "View with dimensions of size 1 repeated to `size`; -1 keeps a dimension.  self: [*] "
             "-> `size`.",
      .infer =
          [](Infer& c) {
            const Tensor& self = c.in(0);
            Dims sizes = c.attrs<expand_attrs>().size;
            const int lead = sizes.size() - self.dim();
            check<ShapeError>(lead >= 0,
                              "expand: size {} has fewer dimensions than the tensor's {}", sizes,
                              self.sizes());
            for (int d = 0; d < sizes.size(); ++d) {
              const std::int64_t own = d < lead ? 1 : self.sizes()[d - lead];
              if (sizes[d] == -1 && d >= lead) sizes[d] = own;
              check<ShapeError>(sizes[d] >= 0 && (own == sizes[d] || own == 1),
                                "expand: size {} does not fit the tensor's {}; only dimensions of "
                                "size 1 can be repeated",
                                c.attrs<expand_attrs>().size, self.sizes());
            }
            checked_numel(sizes, "expand");
            c.view(sizes, broadcast_strides(self.sizes(), self.strides(), sizes),
                   self.storage_offset());
          },
      .gradient = [](GradientContext& g) { g.set(0, sum_to_size(g.grad(), g.input(0).sizes())); },
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 1}), Dims{2, 3, 4}});
            s.add({s.normal({}), Dims{2}});
            s.add({s.normal({3, 1}), Dims{-1, 5}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), Dims{4}}, "does not fit");
            e.fails({e.normal({3, 4}), Dims{4}}, "fewer dimensions");
            e.fails({e.normal({1, 1}), Dims{std::int64_t{1} << 40, std::int64_t{1} << 40}},
                    "expand: ");
          },
  });
}

}  // namespace facula::ops
