// Shape rules of 2-d pooling.
#pragma once

#include "base/divide_up.h"
#include "ops/schema/op_def.h"

namespace facula {

/// Window arithmetic of one spatial dimension.
struct PoolAxis {
  std::int64_t kernel, stride, padding, dilation;

  /// Number of windows over `size` elements; with ceil_mode the last may hang over the end, but
  /// must begin inside the input or its left padding.
  std::int64_t windows(std::int64_t size, bool ceil_mode) const;

  /// How many of a window's elements lie in the padding before the input.
  std::int64_t skipped(std::int64_t window) const {
    const std::int64_t before = padding - window * stride;
    return before > 0 ? base::divide_up(before, dilation) : 0;
  }
  /// The first element of a window after those. Not in the input if all others lie behind it.
  std::int64_t first(std::int64_t window) const {
    return window * stride - padding + skipped(window) * dilation;
  }
};

struct PoolShape {
  PoolAxis height, width;
  std::int64_t out_height, out_width;
};

/// Checks the options for an input of these sizes [N, C, H, W]; an empty stride means the kernel
/// size. Every window holds at least one element of the input.
PoolShape pool_shape(IntList sizes, const Dims& kernel, const Dims& stride, const Dims& padding,
                     const Dims& dilation, bool ceil_mode, const char* op);
/// Checks the dtype as well.
PoolShape pool_shape(const Tensor& input, const Dims& kernel, const Dims& stride,
                     const Dims& padding, const Dims& dilation, bool ceil_mode, const char* op);

/// An entry of a list that may have one entry for both dimensions.
inline std::int64_t spatial(const Dims& list, int dim) {
  return list.size() == 1 ? list[0] : list[dim];
}

/// The options for one dimension; an empty stride means the kernel size.
inline PoolAxis pool_axis(const Dims& kernel, const Dims& stride, const Dims& padding,
                          const Dims& dilation, int dim) {
  return {spatial(kernel, dim), spatial(stride.empty() ? kernel : stride, dim),
          spatial(padding, dim), spatial(dilation, dim)};
}

}  // namespace facula
