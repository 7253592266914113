#include "ops/schema/checks.h"

#include "ops/schema/shape.h"

namespace facula {

void check_operands(std::initializer_list<Tensor> tensors, const char* op) {
  for (const Tensor& tensor : tensors) {
    check_defined(op, tensor);
    check<DTypeError>(kComputeTypes.contains(tensor.dtype()),
                      "{}: dtype {} is not supported; convert it with to(kFloat32)", op,
                      name_of(tensor.dtype()));
  }
}

void check_reduces_all(const Tensor& self, const char* op) {
  check_operands({self}, op);
  check<ShapeError>(self.numel() > 0,
                    "{}: a tensor of size {} has no elements to reduce; leave out empty ones", op,
                    self.sizes());
}

void check_reduces(const Tensor& self, IntList dims, const char* op) {
  check_operands({self}, op);
  for (std::int64_t d : normalize_dims(dims, self.dim(), op)) {
    check<ShapeError>(self.sizes()[d] > 0, "{}: dimension {} of size {} has no elements to reduce",
                      op, d, self.sizes());
  }
}

}  // namespace facula
