#include "ops/schema/elementwise.h"

#include "core/number_range.h"
#include "core/tensor_impl.h"
#include "ops/schema/op.h"
#include "ops/schema/shape.h"

namespace facula {

void infer_elementwise(Infer& infer) {
  const Call& call = infer.call();
  const ElementwiseTraits& traits = *call.op.def.elementwise;
  const TensorImpl& first = *call.in(0).impl();
  // The layout follows the first input of the result's shape that has no gaps, or else the first
  // one of that shape, as parts of channels_last images; a broadcast one says nothing about it.
  Dims sizes(first.size_list());
  for (std::uint32_t i = 1; i < call.count; ++i) {
    sizes = broadcast_sizes(sizes, call.in(i).sizes(), infer.op_name());
  }
  const DType operand = call.in(traits.mask_inputs).dtype();
  const DType dtype = traits.predicate ? kBool : operand;
  for (std::uint32_t i = 0; i < call.count; ++i) {
    const TensorImpl& impl = *call.in(i).impl();
    if (impl.size_list() == sizes && is_dense(impl)) {
      return infer.out_strided(dtype, sizes, impl.stride_list());
    }
  }
  for (std::uint32_t i = 0; i < call.count; ++i) {
    const TensorImpl& impl = *call.in(i).impl();
    if (impl.size_list() == sizes) {
      return infer.out_strided(dtype, sizes, dense_strides_like(impl));
    }
  }
  infer.out(dtype, sizes);
}

void fitting_numbers(Scalar number, std::size_t, DType dtype, const char* op) {
  check_fits(number, dtype, op);
}

void unary_errors(ErrorSamples& errors) {
  errors.fails({Tensor()}, "undefined");
  errors.fails({errors.normal({2}).to(kFloat16)}, "not supported");
}

void binary_errors(ErrorSamples& errors) {
  errors.fails({errors.normal({2, 3}), errors.normal({4})}, "broadcast");
  errors.fails({errors.normal({2}), Tensor()}, "undefined");
}

void ternary_errors(ErrorSamples& errors) {
  errors.fails({errors.normal({2, 3}), errors.normal({4}), errors.normal({3})}, "broadcast");
  errors.fails({errors.normal({2}), errors.normal({2}), Tensor()}, "undefined");
}

}  // namespace facula
