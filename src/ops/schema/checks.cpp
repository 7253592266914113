#include "ops/schema/checks.h"

#include "base/small_vector.h"
#include "ops/schema/shape.h"

namespace facula {

Device common_device(const char* op, std::span<const Tensor* const> tensors) {
  const auto is_number = [](const Tensor& t) { return t.dim() == 0 && t.device().is_cpu(); };
  const Tensor* decisive = nullptr;
  for (const Tensor* tensor : tensors) {
    if (!tensor->defined()) continue;
    if (decisive == nullptr || is_number(*decisive)) {
      decisive = tensor;
      continue;
    }
    check<DeviceError>(tensor->device() == decisive->device() || is_number(*tensor),
                       "{}: an input of size {} is on {}, one of size {} on {}; move them to one "
                       "device with to()",
                       op, decisive->sizes(), decisive->device(), tensor->sizes(),
                       tensor->device());
  }
  return decisive ? decisive->device() : kCPU;
}

void check_operands(std::initializer_list<Tensor> tensors, const char* op) {
  SmallVector<const Tensor*, 4> pointers;
  for (const Tensor& tensor : tensors) {
    check_defined(op, tensor);
    pointers.push_back(&tensor);
  }
  common_device(op, pointers);
  for (const Tensor& tensor : tensors) {
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
