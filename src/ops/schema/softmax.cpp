#include "ops/schema/softmax.h"

#include "core/tensor_impl.h"

namespace facula {

void infer_softmax(Infer& infer, std::int64_t dim) {
  const Tensor& self = infer.in(0);
  check<ValueError>(self.defined(), "{}: the input is an undefined tensor", infer.op_name());
  check<DTypeError>(kFloatingTypes.contains(self.dtype()),
                    "{}: dtype {} is not supported; convert it with to(kFloat32)", infer.op_name(),
                    name_of(self.dtype()));
  wrap_dim(dim, self.dim(), infer.op_name());
  infer.out(self.dtype(), self.sizes());
}

}  // namespace facula
