#include "ops/schema/linear.h"

namespace facula {

void infer_linear(Infer& c) {
  const char* op = c.op_name();
  const Tensor& x = c.in(0);
  const Tensor& weight = c.in(1);
  check<ShapeError>(weight.dim() == 2, "{}: weight has size {}, expected [out, in]", op,
                    weight.sizes());
  const std::int64_t in = weight.sizes()[1], out = weight.sizes()[0];
  check<ShapeError>(x.dim() >= 1 && x.sizes()[x.dim() - 1] == in,
                    "{}: input has size {}, but weight {} needs {} values in the last dimension; "
                    "flatten or reshape the input, or change the layer's width",
                    op, x.sizes(), weight.sizes(), in);
  check<DTypeError>(x.dtype() == weight.dtype() && kNumericTypes.contains(x.dtype()) &&
                        (!c.has(2) || c.in(2).dtype() == x.dtype()),
                    "{}: input is {}, weight {}; they and bias must have one dtype of float32, "
                    "float64 or integers; convert with to()",
                    op, name_of(x.dtype()), name_of(weight.dtype()));
  check<ShapeError>(!c.has(2) || c.in(2).sizes() == IntList(out),
                    "{}: bias has size {}, expected [{}], the rows of weight", op,
                    c.has(2) ? c.in(2).sizes() : IntList(), out);
  Dims sizes = x.sizes();
  sizes.back() = out;
  c.out(x.dtype(), sizes);
}

}  // namespace facula
