#include "core/promotion.h"

#include <optional>

#include "core/tensor_impl.h"

namespace facula {

int category(DType dtype) { return is_floating_point(dtype) ? 2 : dtype == kBool ? 0 : 1; }

DType promoted_dtype(std::span<const Tensor* const> inputs) {
  std::optional<DType> by_priority[3];
  for (const Tensor* input : inputs) {
    const TensorImpl& impl = *input->impl();
    const int priority = impl.has(TensorImpl::kWrappedNumber) ? 2 : impl.dim == 0 ? 1 : 0;
    std::optional<DType>& entry = by_priority[priority];
    entry = entry ? promote_types(*entry, impl.dtype) : impl.dtype;
  }
  std::optional<DType> result;
  for (int priority = 0; priority < 3; ++priority) {
    if (!by_priority[priority]) continue;
    DType dtype = *by_priority[priority];
    if (priority == 2 && dtype == kFloat64) dtype = get_default_dtype();
    if (!result) {
      result = dtype;
    } else if (category(dtype) > category(*result)) {
      result = promote_types(dtype, *result);
    }
  }
  return *result;
}

}  // namespace facula
