#include <facula/ops.h>

#include <algorithm>

#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

namespace {

/// One dimension with entries from its own inside (reflect) or its border repeated before and
/// after.
Tensor mirrored(const Tensor& self, int dim, std::int64_t before, std::int64_t after,
                bool reflect) {
  if (before == 0 && after == 0) return self;
  const std::int64_t size = self.sizes()[dim];
  const std::int64_t widest = std::max(before, after);
  check<ShapeError>(std::min(before, after) >= 0 && size > 0 && (!reflect || widest < size),
                    "pad: widths {} and {} must not be negative and, to reflect, smaller than "
                    "dimension {} of size {}",
                    before, after, dim, self.sizes());
  const TensorOptions options(kInt64, self.device());
  const auto last = static_cast<double>(size - 1);
  Tensor source = arange(-before, size + after, 1, options);
  if (reflect) source = last - abs(last - abs(source).to(kFloat64));
  return index_select(self, dim, clamp(source, 0, last).to(kInt64));
}

}  // namespace

Tensor pad(const Tensor& self, IntList pad, std::string_view mode, double value) {
  check_defined("pad", self);
  if (mode == "constant") return constant_pad(self, pad, value);
  check<ValueError>(mode == "reflect" || mode == "replicate",
                    "pad: mode is \"{}\", expected constant, reflect or replicate", mode);
  check<ValueError>(
      pad.size() % 2 == 0 && static_cast<int>(pad.size()) / 2 <= self.dim(),
      "pad: {} must name two widths per dimension, for at most the {} dimensions of the "
      "tensor",
      pad, self.dim());
  Tensor result = self;
  for (std::size_t i = 0; i < pad.size(); i += 2) {
    const int dim = self.dim() - 1 - static_cast<int>(i / 2);
    result = mirrored(result, dim, pad[i], pad[i + 1], mode == "reflect");
  }
  return result.is_same(self) ? clone(self) : result;
}

namespace ops {

CompositeDef define_pad() {
  return {
      .signature = "pad(Tensor self, int[] pad, str mode='constant', float value=0) -> Tensor",
      .doc =
          "self with a margin: pad names the widths before and after the last dimension, then the "
          "last but one... mode: constant (filled with value), reflect (without repeating the "
          "border) or replicate; at most 4 dimensions.  self: [*] -> [*] with dimensions longer by "
          "their widths.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3}), Dims{1, 2}});
            s.add({s.normal({2, 3, 4, 4}), Dims{1, 1, 2, 0}, "constant", 0.5});
            s.add({s.normal({2, 4, 5}), Dims{2, 3, 1, 0}, "reflect"});
            s.add({s.normal({2, 4, 5}), Dims{2, 7, 1, 0}, "replicate"});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), Dims{1}}, "two widths per dimension");
            e.fails({e.normal({3}), Dims{3, 0}, "reflect"}, "smaller than");
            e.fails({e.normal({3}), Dims{1, 1}, "wrap"}, "expected constant");
          },
  };
}

}  // namespace ops
}  // namespace facula
