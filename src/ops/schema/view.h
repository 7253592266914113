// View ops: shape arithmetic only, no kernel.
#pragma once

#include <facula/ops.h>

#include "ops/schema/op_def.h"

namespace facula {

/// As many views can one call make: nodes count their outputs in 16 bits.
constexpr std::int64_t kMostViews = 65535;

/// What remains to be said of a view op; its rule calls Infer::view.
struct ViewSpec {
  Required<const char*> signature;
  Required<const char*> doc;
  Required<InferRule> infer;
  Required<Gradient> gradient;
  Required<SampleRule> samples;
  Required<ErrorRule> errors;
};

inline OpDef view_op(const ViewSpec& spec) {
  return {.signature = spec.signature,
          .doc = spec.doc,
          .infer = spec.infer,
          .gradient = spec.gradient,
          .saves = {shape_of(0)},
          .autocast = Autocast::promote,
          .determinism = Determinism::deterministic,
          .random = RandomEffect::none,
          .aliasing = Aliasing::view(),
          .fusion = Fusion::view,
          .samples = spec.samples,
          .errors = spec.errors};
}

}  // namespace facula
