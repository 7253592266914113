#include "ops/schema/reduction.h"

#include "ops/schema/op.h"
#include "ops/schema/shape.h"

namespace facula {

void infer_reduction(Infer& infer) {
  const ReductionTraits& traits = *infer.call().op.def.reduction;
  const auto& attrs = infer.attrs<ReductionAttrs>();
  const Tensor& self = infer.in(0);
  check<ValueError>(self.defined(), "{}: the input is an undefined tensor", infer.op_name());
  check<DTypeError>(traits.dtypes.contains(self.dtype()),
                    "{}: dtype {} is not supported; convert it with to(kFloat32)", infer.op_name(),
                    name_of(self.dtype()));
  const Dims dims = normalize_dims(attrs.dim, self.dim(), infer.op_name());
  if (!traits.has_identity) {
    for (std::int64_t d : dims) {
      check<ShapeError>(self.sizes()[d] > 0,
                        "{}: dimension {} of size {} has no elements to reduce", infer.op_name(), d,
                        self.sizes());
    }
  }
  DType dtype = self.dtype();
  if (traits.predicate) dtype = kBool;
  if (traits.widens_integers && !facula::is_floating_point(dtype)) dtype = kInt64;
  infer.out(dtype, reduced_sizes(self.sizes(), dims, attrs.keepdim));
}

Tensor expand_reduced(const Tensor& reduced, IntList input_sizes, const ReductionAttrs& attrs) {
  const Dims dims = normalize_dims(attrs.dim, static_cast<int>(input_sizes.size()), "reduction");
  return expand(reshape(reduced, reduced_sizes(input_sizes, dims, true)), input_sizes);
}

void reduction_samples(Samples& s) {
  s.add({s.normal({})});
  s.add({s.normal({7})});
  s.add({s.normal({3, 4, 5})});
  s.add({s.normal({3, 4, 5}), Dims{1}});
  s.add({s.normal({3, 4, 5}), Dims{0, -1}, true});
  s.add({s.normal({2, 3, 70}), Dims{-1}});
}

void reduction_errors(ErrorSamples& e) {
  e.fails({e.normal({2, 3}), Dims{2}}, "out of range");
  e.fails({e.normal({2, 3}), Dims{0, 0}}, "twice");
  e.fails({e.normal({2}).to(kFloat16)}, "not supported");
  e.fails({Tensor()}, "undefined");
}

}  // namespace facula
