#include "ops/attrs/unbind.h"

#include "core/tensor_impl.h"
#include "ops/schema/region.h"
#include "ops/schema/view.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const Tensor& self = c.in(0);
  check<ShapeError>(self.dim() > 0, "unbind: a 0-d tensor has no entries");
  const int dim = wrap_dim(c.attrs<unbind_attrs>().dim, self.dim(), "unbind");
  const std::int64_t size = self.sizes()[dim];
  check<ValueError>(size <= kMostViews,
                    "unbind: dimension {} of {} has {} entries, at most {} are possible; take them "
                    "one by one with select",
                    dim, self.sizes(), size, kMostViews);
  for (std::int64_t i = 0; i < size; ++i) {
    const Region region = select_region(self.sizes(), self.strides(), dim, i);
    c.view(region.sizes, region.strides, self.storage_offset() + region.offset);
  }
}

void gradient(GradientContext& g) {
  const Tensor self = g.input(0);
  const int dim = wrap_dim(g.attrs<unbind_attrs>().dim, self.dim(), "unbind");
  Dims sizes(self.sizes());
  sizes.erase(dim);
  std::vector<Tensor> gradients;
  for (std::int64_t i = 0; i < self.sizes()[dim]; ++i) {
    const Tensor& gradient = g.grad(gradients.size());
    gradients.push_back(gradient.defined() ? gradient : zeros(sizes, self.options()));
  }
  g.set(0, stack(gradients, dim));
}

}  // namespace

OpDef define_unbind() {
  return view_op({
      .signature = "unbind(Tensor self, int dim=0) -> Tensor[]",
      .doc = "Views of all entries of dimension dim, which disappears; at most 65535.  self: [*] "
             "-> list of [*] without dim.",
      .infer = infer,
      .gradient = gradient,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 2})});
            s.add({s.normal({2, 3}), -1});
            s.add({s.normal({4})});
            s.add({s.normal({300})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({})}, "0-d tensor");
            e.fails({e.normal({65536})}, "at most 65535");
          },
  });
}

}  // namespace facula::ops
