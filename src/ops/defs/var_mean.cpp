#include "ops/attrs/var_mean.h"

#include <facula/ops.h>

#include <algorithm>

#include "ops/schema/reduction.h"
#include "ops/schema/shape.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const auto& attrs = c.attrs<var_mean_attrs>();
  const Tensor& self = c.in(0);
  check<ValueError>(self.defined(), "var_mean: the input is an undefined tensor");
  check<DTypeError>(kFloatingTypes.contains(self.dtype()),
                    "var_mean: dtype {} is not supported; convert it with to(kFloat32)",
                    name_of(self.dtype()));
  const Dims dims = normalize_dims(attrs.dim, self.dim(), "var_mean");
  for (int i = 0; i < 2; ++i) {
    c.out(self.dtype(), reduced_sizes(self.sizes(), dims, attrs.keepdim));
  }
}

void gradient(GradientContext& g) {
  const auto& attrs = g.attrs<var_mean_attrs>();
  const Tensor self = g.input(0), mean = g.output(1);
  const ReductionAttrs reduction = {attrs.dim, attrs.keepdim};
  const double count =
      static_cast<double>(self.numel()) / std::max(1.0, static_cast<double>(mean.numel()));
  Tensor result;
  if (g.grad(0).defined()) {
    const double divisor = std::max(0.0, count - static_cast<double>(attrs.correction));
    const Tensor scale = expand_reduced(g.grad(0) * (2 / divisor), self.sizes(), reduction);
    result = (self - expand_reduced(mean, self.sizes(), reduction)) * scale;
  }
  if (g.grad(1).defined()) {
    const Tensor share = expand_reduced(g.grad(1) / count, self.sizes(), reduction);
    result = result.defined() ? result + share : share;
  }
  g.set(0, result);
}

}  // namespace

OpDef define_var_mean() {
  return {
      .signature =
          "var_mean(Tensor self, int[] dim=[], int correction=1, bool keepdim=False) -> "
          "(Tensor, Tensor)",
      .doc =
          "var and mean over the given dimensions (none given: all) in one pass.  self: [*] "
          "floating -> [*], [*] without dim, or with dim of size 1 (keepdim).",
      .infer = infer,
      .gradient = gradient,
      .saves = {input(0), output(1)},
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({7})});
            s.add({s.normal({3, 4, 5}), Dims{1}});
            s.add({s.normal({3, 4, 5}), Dims{0, -1}, 0, true});
            s.add({s.normal({3, 70}), Dims{-1}});
            s.add({s.normal({40, 3}), Dims{0}, 2});
          },
      .errors = reduction_errors,
  };
}

}  // namespace facula::ops
