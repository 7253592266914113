#include "ops/attrs/logsumexp.h"

#include <facula/ops.h>

#include "ops/schema/reduction.h"
#include "ops/schema/shape.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const auto& attrs = c.attrs<logsumexp_attrs>();
  const Tensor& self = c.in(0);
  check<ValueError>(self.defined(), "logsumexp: the input is an undefined tensor");
  check<DTypeError>(kComputeTypes.contains(self.dtype()),
                    "logsumexp: dtype {} is not supported; convert it with to(kFloat32)",
                    name_of(self.dtype()));
  const Dims dims = normalize_dims(attrs.dim, self.dim(), "logsumexp");
  c.out(self.is_floating_point() ? self.dtype() : get_default_dtype(),
        reduced_sizes(self.sizes(), dims, attrs.keepdim));
}

void gradient(GradientContext& g) {
  const auto& attrs = g.attrs<logsumexp_attrs>();
  const Tensor self = g.input(0);
  const auto expanded = [&](const Tensor& reduced) {
    return expand_reduced(reduced, self.sizes(), {attrs.dim, attrs.keepdim});
  };
  g.set(0, exp(self - expanded(g.output(0))) * expanded(g.grad()));
}

void samples(Samples& s) {
  s.add({s.normal({7}), Dims{0}});
  s.add({s.normal({3, 4, 5}), Dims{1}});
  s.add({s.normal({3, 4, 5}), Dims{0, -1}, true});
  s.add({s.normal({2, 70, 18}), Dims{1}});
  s.add({tensor({-200, 50, 100, 90}, {2, 2}, kFloat32), Dims{0}});
  s.add({tensor({3, 97, 2, 200}, {2, 2}, kUInt8), Dims{1}});
  s.add({tensor({-2000000000, 2000000000}, {2}, kInt32), Dims{0}});
}

}  // namespace

OpDef define_logsumexp() {
  return {
      .signature = "logsumexp(Tensor self, int[] dim, bool keepdim=False) -> Tensor",
      .doc =
          "log of the sum of exp(self) over the given dimensions (none given: all), without "
          "overflow; of nothing, -inf.  self: [*] floating -> [*] without dim, or with dim of size "
          "1 (keepdim).",
      .infer = infer,
      .gradient = gradient,
      .saves = {input(0), output(0)},
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples = samples,
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), Dims{2}}, "logsumexp: dimension 2 is out of range");
            e.fails({e.normal({2}).to(kFloat16), Dims{0}}, "not supported");
            e.fails({Tensor(), Dims{0}}, "undefined");
          },
  };
}

}  // namespace facula::ops
