#include "ops/attrs/permute.h"

#include "core/tensor_impl.h"
#include "ops/schema/view.h"

namespace facula::ops {
namespace {

Dims wrapped(IntList dims, int rank) {
  check<ShapeError>(static_cast<int>(dims.size()) == rank,
                    "permute: {} names {} dimensions of a tensor that has {}", dims, dims.size(),
                    rank);
  Dims result;
  unsigned seen = 0;
  for (std::int64_t d : dims) {
    const int dim = wrap_dim(d, rank, "permute");
    check<ValueError>(!(seen >> dim & 1), "permute: {} names dimension {} twice", dims, dim);
    seen |= 1u << dim;
    result.push_back(dim);
  }
  return result;
}

}  // namespace

OpDef define_permute() {
  return view_op({
      .signature = "permute(Tensor self, int[] dims) -> Tensor",
      .doc = "View with the dimensions in the given order.  self: [*] -> [*] in that order.",
      .infer =
          [](Infer& c) {
            const Tensor& self = c.in(0);
            Dims sizes, strides;
            for (std::int64_t d : wrapped(c.attrs<permute_attrs>().dims, self.dim())) {
              sizes.push_back(self.sizes()[d]);
              strides.push_back(self.strides()[d]);
            }
            c.view(sizes, strides, self.storage_offset());
          },
      .gradient =
          [](GradientContext& g) {
            const Dims order = wrapped(g.attrs<permute_attrs>().dims, g.grad().dim());
            Dims inverse = Dims::filled(order.size(), 0);
            for (int d = 0; d < order.size(); ++d) inverse[static_cast<int>(order[d])] = d;
            g.set(0, permute(g.grad(), inverse));
          },
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3, 4}), Dims{2, 0, -2}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), Dims{0}}, "names 1 dimensions");
            e.fails({e.normal({2, 3}), Dims{0, 0}}, "twice");
            e.fails({e.normal({2, 3}), Dims{0, 2}}, "out of range");
          },
  });
}

}  // namespace facula::ops
