#include "ops/attrs/to_copy.h"

#include <facula/ops.h>

#include "core/promotion.h"
#include "core/tensor_impl.h"
#include "ops/schema/op_def.h"

namespace facula::ops {
namespace {

/// "preserve" keeps the order in which dimensions follow each other in memory.
void infer(Infer& c) {
  const auto& attrs = c.attrs<to_copy_attrs>();
  check<ValueError>(c.in(0).defined(), "to_copy: the input is an undefined tensor");
  const TensorImpl& self = *c.in(0).impl();
  const DType dtype = attrs.dtype.value_or(self.dtype);
  const std::string_view format = attrs.memory_format;
  if (format == "preserve") {
    if (is_dense(self)) return c.out_strided(dtype, self.size_list(), self.stride_list());
    return c.out_strided(dtype, self.size_list(), dense_strides_like(self));
  }
  check<ValueError>(format == "contiguous" || format == "channels_last",
                    "to_copy: unknown memory format \"{}\"; use contiguous, channels_last or "
                    "preserve",
                    format);
  const bool channels_last = format == "channels_last";
  check<ShapeError>(!channels_last || self.dim == 4,
                    "to_copy: channels_last needs 4 dimensions, got size {}", self.size_list());
  c.out(dtype, self.size_list(), channels_last ? kChannelsLast : kContiguous);
}

}  // namespace

OpDef define_to_copy() {
  return {
      .signature =
          "to_copy(Tensor self, dtype? dtype=None, str memory_format='preserve') "
          "-> Tensor",
      .doc = "A dense copy in the given dtype and layout.  self: [*] any dtype -> [*].",
      .infer = infer,
      .gradient =
          [](GradientContext& g) {
            const DType dtype = gradient_dtype(g.input(0).dtype());
            g.set(0, dtype == g.grad().dtype() ? g.grad() : to_copy(g.grad(), dtype));
          },
      .saves = {shape_of(0)},
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::elementwise,
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3})});
            s.add({s.normal({2, 3}), kFloat64});
            s.add({s.normal({2, 3, 4, 5}), NoneType{}, "channels_last"});
            s.add({s.normal({4}), kInt32});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2}), NoneType{}, "sideways"}, "unknown memory format");
            e.fails({e.normal({2}), NoneType{}, "channels_last"}, "needs 4 dimensions");
          },
  };
}

}  // namespace facula::ops
