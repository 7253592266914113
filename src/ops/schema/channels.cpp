#include "ops/schema/channels.h"

#include <facula/ops.h>

namespace facula {

std::int64_t check_channels(const Tensor& input, const char* op) {
  check<ValueError>(input.defined(), "{}: the input is an undefined tensor", op);
  check<ShapeError>(input.dim() >= 2, "{}: input of size {}, expected [N, C] or [N, C, ...]", op,
                    input.sizes());
  check<DTypeError>(kFloatingTypes.contains(input.dtype()),
                    "{}: dtype {} is not supported; convert it with to(kFloat32)", op,
                    name_of(input.dtype()));
  return input.sizes()[1];
}

void check_per_channel(const Tensor& values, const char* name, const Tensor& input,
                       const char* op) {
  if (!values.defined()) return;
  check<ShapeError>(values.dim() == 1 && values.sizes()[0] == input.sizes()[1],
                    "{}: {} of size {} for an input of size {}, expected [{}]", op, name,
                    values.sizes(), input.sizes(), input.sizes()[1]);
  check<DTypeError>(values.dtype() == input.dtype(), "{}: {} of dtype {} for an input of dtype {}",
                    op, name, name_of(values.dtype()), name_of(input.dtype()));
}

void check_residual(const Tensor& residual, const Tensor& input, const char* op) {
  if (!residual.defined()) return;
  check<ShapeError>(residual.sizes() == input.sizes(),
                    "{}: residual of size {} for an input of size {}; they must be equal", op,
                    residual.sizes(), input.sizes());
  check<DTypeError>(residual.dtype() == input.dtype(),
                    "{}: residual of dtype {} for an input of dtype {}", op,
                    name_of(residual.dtype()), name_of(input.dtype()));
}

void check_cap(std::optional<double> cap, const char* op) {
  check<ValueError>(!cap || *cap > 0, "{}: cap {} is not positive; pass None for none", op,
                    cap.value_or(0));
}

Tensor relu_backward(Tensor grad, const Tensor& result, std::optional<double> cap) {
  return cap ? hardtanh_backward(std::move(grad), result, 0, *cap)
             : relu_backward(std::move(grad), result);
}

bool is_channels_last(const Tensor& tensor) {
  if (tensor.suggest_memory_format() == kChannelsLast) return true;
  if (tensor.dim() != 4 || tensor.numel() == 0) return false;
  if (!tensor.is_contiguous(kChannelsLast)) return false;
  const IntList sizes = tensor.sizes(), strides = tensor.strides();
  std::int64_t least = 0;
  for (const int d : {1, 3, 2, 0}) {
    const bool undecided = d == 0 && least == strides[1];
    if (strides[d] < least || undecided) return false;
    least = strides[d] * sizes[d];
  }
  return true;
}

MemoryFormat channel_format(const Tensor& input) {
  return is_channels_last(input) ? kChannelsLast : kContiguous;
}

Tensor along_channels(const Tensor& values, int rank) {
  Dims sizes = Dims::filled(rank, 1);
  sizes[1] = values.numel();
  return reshape(values, sizes);
}

Dims all_but_channels(int rank) {
  Dims dims;
  for (int d = 0; d < rank; ++d) {
    if (d != 1) dims.push_back(d);
  }
  return dims;
}

}  // namespace facula
