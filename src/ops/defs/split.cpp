#include "ops/attrs/split.h"

#include "core/tensor_impl.h"
#include "ops/schema/region.h"
#include "ops/schema/view.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const Tensor& self = c.in(0);
  const auto& a = c.attrs<split_attrs>();
  check<ShapeError>(self.dim() > 0, "split: a 0-d tensor cannot be split");
  const int dim = wrap_dim(a.dim, self.dim(), "split");
  const std::int64_t size = self.sizes()[dim];
  check<ValueError>(a.split_size > 0 || (a.split_size == 0 && size == 0),
                    "split: split_size is {}, must be positive", a.split_size);
  const std::int64_t pieces = size == 0 ? 1 : size / a.split_size + (size % a.split_size != 0);
  check<ValueError>(pieces <= kMostViews,
                    "split: {} pieces, at most {} are possible; take them one by one with narrow",
                    pieces, kMostViews);
  for (std::int64_t i = 0; i < pieces; ++i) {
    const Region region =
        slice_region(self.sizes(), self.strides(), dim, i * a.split_size,
                     size - i * a.split_size > a.split_size ? (i + 1) * a.split_size : size, 1);
    c.view(region.sizes, region.strides, self.storage_offset() + region.offset);
  }
}

void gradient(GradientContext& g) {
  const Tensor self = g.input(0);
  const auto& a = g.attrs<split_attrs>();
  const int dim = wrap_dim(a.dim, self.dim(), "split");
  const std::int64_t size = self.sizes()[dim];
  std::vector<Tensor> gradients;
  std::int64_t begin = 0;
  do {
    const std::int64_t width = std::min(a.split_size, size - begin);
    const Tensor& gradient = g.grad(gradients.size());
    Dims sizes(self.sizes());
    sizes[dim] = width;
    gradients.push_back(gradient.defined() ? gradient : zeros(sizes, self.options()));
    begin += width;
  } while (begin < size);
  g.set(0, cat(gradients, dim));
}

}  // namespace

OpDef define_split() {
  return view_op({
      .signature = "split(Tensor self, int split_size, int dim=0) -> Tensor[]",
      .doc = "Views of split_size entries of dimension dim each, the last one perhaps smaller; at "
             "most 65535.  self: [*] -> list of [*], parts of dim.",
      .infer = infer,
      .gradient = gradient,
      .samples =
          [](Samples& s) {
            s.add({s.normal({5, 2}), 2});
            s.add({s.normal({2, 6}), 3, -1});
            s.add({s.normal({0, 2}), 2});
            s.add({s.normal({300}), 1});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({4}), 0}, "must be positive");
            e.fails({e.normal({65536}), 1}, "at most 65535");
            e.fails({e.normal({}), 1}, "0-d tensor");
          },
  });
}

}  // namespace facula::ops
