#include "ops/schema/indexing.h"

#include <facula/ops.h>

#include "core/tensor_impl.h"

namespace facula {

void check_index(const Tensor& index, const char* op) {
  check<ValueError>(index.defined(), "{}: the index is an undefined tensor", op);
  check<DTypeError>(index.dtype() == kInt64 || index.dtype() == kInt32,
                    "{}: the index has dtype {}, expected int64; convert it with to(kInt64)", op,
                    name_of(index.dtype()));
}

void check_index_list(const Tensor& index, const char* op) {
  check_index(index, op);
  check<ShapeError>(index.dim() <= 1, "{}: the index has size {}, expected one dimension", op,
                    index.sizes());
}

int check_index_grid(const Tensor& self, std::int64_t dim, const Tensor& index, const char* op) {
  check_index(index, op);
  check<ShapeError>(index.dim() == self.dim(),
                    "{}: index of size {} and tensor of size {} must have equally many dimensions",
                    op, index.sizes(), self.sizes());
  const int wrapped = wrap_dim(dim, self.dim(), op);
  for (int d = 0; d < self.dim(); ++d) {
    check<ShapeError>(d == wrapped || index.sizes()[d] <= self.sizes()[d],
                      "{}: index of size {} exceeds the tensor of size {} in dimension {}", op,
                      index.sizes(), self.sizes(), d);
  }
  return wrapped;
}

Tensor zeros_to_add_to(const Tensor& like, DType dtype) {
  return expand(zeros({}, {dtype, like.device()}), like.sizes());
}

}  // namespace facula
