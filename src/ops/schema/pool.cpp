#include "ops/schema/pool.h"

#include <algorithm>
#include <limits>

#include "core/tensor_impl.h"

namespace facula {
namespace {

/// The largest kernel, stride and dilation: kernels count them in 32 bits.
constexpr std::int64_t kLargestStep = std::numeric_limits<std::int32_t>::max();
/// The largest height and width: positions beyond them, in the padding, must not overflow.
constexpr std::int64_t kLargestSize = std::numeric_limits<std::int64_t>::max() / 2;

}  // namespace

std::int64_t PoolAxis::windows(std::int64_t size, bool ceil_mode) const {
  const std::int64_t reach =
      size + 2 * padding - dilation * (kernel - 1) - 1 + (ceil_mode ? stride - 1 : 0);
  if (reach < 0) return 0;
  std::int64_t count = reach / stride + 1;
  if (ceil_mode && (count - 1) * stride >= size + padding) --count;
  return count;
}

PoolShape pool_shape(const Tensor& input, const Dims& kernel, const Dims& stride,
                     const Dims& padding, const Dims& dilation, bool ceil_mode, const char* op) {
  check<ValueError>(input.defined(), "{}: the input is an undefined tensor", op);
  check<DTypeError>(kFloatingTypes.contains(input.dtype()),
                    "{}: dtype {} is not supported; convert it with to(kFloat32)", op,
                    name_of(input.dtype()));
  return pool_shape(input.sizes(), kernel, stride, padding, dilation, ceil_mode, op);
}

PoolShape pool_shape(IntList sizes, const Dims& kernel, const Dims& stride, const Dims& padding,
                     const Dims& dilation, bool ceil_mode, const char* op) {
  check<ShapeError>(sizes.size() == 4, "{}: input of size {}, expected [N, C, H, W]", op, sizes);
  checked_numel(sizes, op);
  const Dims& steps = stride.empty() ? kernel : stride;
  for (const Dims* list : {&kernel, &steps, &padding, &dilation}) {
    check<ValueError>(list->size() == 1 || list->size() == 2,
                      "{}: {} has {} entries, expected one or two (height, width)", op, *list,
                      list->size());
  }
  PoolShape shape;
  for (int d = 0; d < 2; ++d) {
    PoolAxis& axis = d == 0 ? shape.height : shape.width;
    axis = {spatial(kernel, d), spatial(steps, d), spatial(padding, d), spatial(dilation, d)};
    check<ValueError>(axis.kernel > 0 && axis.stride > 0 && axis.dilation > 0,
                      "{}: kernel {}, stride {} and dilation {} must be positive", op, kernel,
                      steps, dilation);
    check<ValueError>(std::max({axis.kernel, axis.stride, axis.dilation}) <= kLargestStep,
                      "{}: kernel {}, stride {} and dilation {} must be less than 2^31", op, kernel,
                      steps, dilation);
    check<ValueError>(axis.padding >= 0 && axis.padding <= axis.kernel / 2,
                      "{}: padding {} must be at most half of kernel {}", op, padding, kernel);
    const std::int64_t size = sizes[2 + d];
    check<ShapeError>(size <= kLargestSize, "{}: an input of size {} is too large", op, sizes);
    const std::int64_t windows = axis.windows(size, ceil_mode);
    check<ShapeError>(windows > 0, "{}: an input of size {} is too small for kernel {}", op, sizes,
                      kernel);
    // Dilated windows can step over a small image.
    for (std::int64_t w = 0; w < windows && w * axis.stride < axis.padding; ++w) {
      check<ShapeError>(axis.first(w) < size,
                        "{}: window {} of dimension {} of an input of size {} lies wholly in the "
                        "padding; use less padding ({}) or dilation ({})",
                        op, w, 2 + d, sizes, padding, dilation);
    }
    (d == 0 ? shape.out_height : shape.out_width) = windows;
  }
  return shape;
}

}  // namespace facula
