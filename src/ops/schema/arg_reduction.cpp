#include "ops/schema/arg_reduction.h"

#include <cmath>

#include "core/tensor_impl.h"
#include "ops/schema/shape.h"

namespace facula {

void infer_arg_reduction(Infer& infer, std::optional<std::int64_t> dim, bool keepdim) {
  const Tensor& self = infer.in(0);
  check<ValueError>(self.defined(), "{}: the input is an undefined tensor", infer.op_name());
  check<DTypeError>(kComputeTypes.contains(self.dtype()),
                    "{}: dtype {} is not supported; convert it with to(kFloat32)", infer.op_name(),
                    name_of(self.dtype()));
  const Dims dims = normalize_dims(dim ? IntList(*dim) : IntList(), self.dim(), infer.op_name());
  for (std::int64_t d : dims) {
    check<ShapeError>(self.sizes()[d] > 0,
                      "{}: dimension {} of size {} has no elements to choose from", infer.op_name(),
                      d, self.sizes());
  }
  infer.out(kInt64, reduced_sizes(self.sizes(), dims, keepdim));
}

void arg_reduction_samples(Samples& s) {
  s.add({s.normal({})});
  s.add({s.normal({70})});
  s.add({s.normal({3, 4, 5}), 1});
  s.add({s.normal({3, 4, 5}), -1, true});
  s.add({s.normal({3, 4}), NoneType{}, true});
  s.add({s.integers({5, 40}, 0, 3), 1});
  s.add({s.mask({4, 3}), 0});
  s.add({tensor({1, std::nan(""), 3, std::nan("")}, {-1}, kFloat32), 0});
}

void arg_reduction_errors(ErrorSamples& e) {
  e.fails({e.normal({2, 3}), 2}, "out of range");
  e.fails({e.normal({2, 0}), 1}, "no elements to choose from");
  e.fails({e.normal({2}).to(kFloat16)}, "not supported");
  e.fails({Tensor()}, "undefined");
}

}  // namespace facula
