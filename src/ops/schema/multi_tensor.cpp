#include "ops/schema/multi_tensor.h"

#include "core/tensor_impl.h"

namespace facula {

void check_parameter_lists(const Infer& infer, std::initializer_list<ListArgument> lists) {
  const char* op = infer.op_name();
  const auto params = infer.list(0);
  for (std::size_t i = 0; i < params.size(); ++i) {
    check<ValueError>(params[i]->defined(), "{}: parameter {} is an undefined tensor", op, i);
    const TensorImpl& param = *params[i]->impl();
    check<DTypeError>(kFloatingTypes.contains(param.dtype),
                      "{}: parameter {} is {}; only float32 and float64 are trained", op, i,
                      name_of(param.dtype));
    check<ShapeError>(is_dense(param),
                      "{}: parameter {} of size {} and strides {} has gaps in memory; make it "
                      "contiguous() before training",
                      op, i, param.size_list(), param.stride_list());
  }
  for (const auto& [argument, name, required] : lists) {
    const auto list = infer.list(argument);
    if (list.empty() && !required) continue;
    check<ValueError>(list.size() == params.size(), "{}: {} has {} tensors for {} parameters", op,
                      name, list.size(), params.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      check<ValueError>(list[i]->defined(), "{}: entry {} of {} is an undefined tensor", op, i,
                        name);
      const TensorImpl& param = *params[i]->impl();
      const TensorImpl& other = *list[i]->impl();
      check<ShapeError>(
          other.size_list() == param.size_list() && other.stride_list() == param.stride_list(),
          "{}: entry {} of {} has size {} and strides {}, the parameter {} and {}; they must agree",
          op, i, name, other.size_list(), other.stride_list(), param.size_list(),
          param.stride_list());
      check<DTypeError>(other.dtype == param.dtype, "{}: entry {} of {} is {}, the parameter {}",
                        op, i, name, name_of(other.dtype), name_of(param.dtype));
    }
  }
}

void check_step_scalar(const Infer& infer, std::size_t i, const char* name) {
  const Tensor& scalar = infer.in(i);
  const auto params = infer.list(0);
  const bool reachable = scalar.defined() && (scalar.device().is_cpu() || params.empty() ||
                                              scalar.device() == params[0]->device());
  check<ValueError>(
      reachable && scalar.dim() == 0 && scalar.dtype() == kFloat64,
      "{}: {} must be a 0-d float64 tensor on the CPU or with the parameters; make it "
      "with tensor(value, kFloat64)",
      infer.op_name(), name);
}

}  // namespace facula
