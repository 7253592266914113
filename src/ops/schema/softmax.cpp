#include "ops/schema/softmax.h"

#include "core/tensor_impl.h"
#include "ops/schema/checks.h"

namespace facula {
namespace {

void infer_like(Infer& infer, const Tensor& self, std::int64_t dim) {
  check<DTypeError>(kFloatingTypes.contains(self.dtype()),
                    "{}: dtype {} is not supported; convert it with to(kFloat32)", infer.op_name(),
                    name_of(self.dtype()));
  wrap_dim(dim, self.dim(), infer.op_name());
  if (is_dense(*self.impl())) return infer.out_strided(self.dtype(), self.sizes(), self.strides());
  infer.out(self.dtype(), self.sizes());
}

}  // namespace

void infer_softmax(Infer& infer, std::int64_t dim) {
  const Tensor& self = infer.in(0);
  check<ValueError>(self.defined(), "{}: the input is an undefined tensor", infer.op_name());
  infer_like(infer, self, dim);
}

void infer_softmax_backward(Infer& infer, std::int64_t dim) {
  const Tensor &grad = infer.in(0), &output = infer.in(1);
  check_defined(infer.op_name(), grad, output);
  check<ShapeError>(grad.sizes() == output.sizes(),
                    "{}: a grad of size {} for an output of size {}; make them equal",
                    infer.op_name(), grad.sizes(), output.sizes());
  check<DTypeError>(grad.dtype() == output.dtype(),
                    "{}: a {} grad for a {} output; convert one with to()", infer.op_name(),
                    name_of(grad.dtype()), name_of(output.dtype()));
  infer_like(infer, output, dim);
}

void softmax_backward_errors(ErrorSamples& e) {
  e.fails({e.normal({2, 3}), e.normal({2, 3}), 2}, "out of range");
  e.fails({e.normal({3}), e.normal({2, 3}), 1}, "a grad of size [3] for an output of size [2, 3]");
  e.fails({e.normal({2, 3}).to(kFloat64), e.normal({2, 3}), 1}, "a float64 grad");
  e.fails({e.integers({2, 3}, 0, 5), e.integers({2, 3}, 0, 5), 1}, "not supported");
  e.fails({Tensor(), e.normal({2, 3}), 0}, "undefined");
}

}  // namespace facula
