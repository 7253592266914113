#include "ops/attrs/philox_random.h"

#include <facula/ops.h>

#include "ops/schema/op_def.h"
#include "ops/schema/random.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const auto& attrs = c.attrs<philox_random_attrs>();
  check_random_state(c.in(0), "philox_random");
  const std::string_view kind = attrs.distribution;
  const bool known = kind == "uniform" || kind == "normal" || kind == "bits";
  check<ValueError>(
      known, "philox_random: unknown distribution \"{}\"; use uniform, normal or bits", kind);
  const bool fits = kind == "bits" ? attrs.dtype == kInt64 : kFloatingTypes.contains(attrs.dtype);
  check<DTypeError>(fits, "philox_random: {} values cannot be {}; use {}", kind,
                    name_of(attrs.dtype), kind == "bits" ? "int64" : "float32 or float64");
  c.out(attrs.dtype, attrs.size);
}

}  // namespace

OpDef define_philox_random() {
  return {
      .signature =
          "philox_random(Tensor state, int[] size, dtype dtype=float32, "
          "str distribution='uniform') -> Tensor",
      .doc =
          "Values of the Philox4x32-10 stream at state = {seed, offset}: uniform on [0, 1), "
          "normal, or raw int64 bits.  state: [2] int64 -> `size` of `dtype`.",
      .infer = infer,
      .gradient = not_differentiable("the values do not depend on a tensor continuously"),
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::consumes_stream,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            const Tensor state = tensor({7, 3}, {2}, kInt64);
            for (const char* kind : {"uniform", "normal"}) {
              s.add({state, Dims{3, 70}, kFloat32, kind});
              s.add({state, Dims{5}, kFloat64, kind});
            }
            s.add({state, Dims{9}, kInt64, "bits"});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2}), Dims{3}}, "random state");
            e.fails({tensor({7, 3}, {2}, kInt64), Dims{3}, kFloat32, "cauchy"},
                    "unknown distribution");
            e.fails({tensor({7, 3}, {2}, kInt64), Dims{3}, kInt32}, "cannot be int32");
          },
  };
}

}  // namespace facula::ops
