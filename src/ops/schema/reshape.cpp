#include "ops/schema/reshape.h"

#include "base/check.h"

namespace facula {

Dims resolve_sizes(IntList sizes, std::int64_t numel, const char* op) {
  Dims result(sizes);
  int open = -1;
  std::int64_t known = 1;
  for (int d = 0; d < result.size(); ++d) {
    if (result[d] == -1) {
      check<ShapeError>(open < 0, "{}: size {} has more than one -1", op, sizes);
      open = d;
    } else {
      check<ShapeError>(result[d] >= 0 && !__builtin_mul_overflow(known, result[d], &known),
                        "{}: size {} is no valid shape", op, sizes);
    }
  }
  if (open >= 0) {
    check<ShapeError>(known > 0 && numel % known == 0,
                      "{}: the tensor has {} elements, which do not fill size {}", op, numel,
                      sizes);
    result[open] = numel / known;
  } else {
    check<ShapeError>(known == numel, "{}: the tensor has {} elements, size {} needs {}", op, numel,
                      sizes, known);
  }
  checked_numel(result, op);
  return result;
}

std::optional<Dims> view_strides(const TensorImpl& impl, IntList sizes) {
  Dims strides = Dims::filled(static_cast<int>(sizes.size()), 1);
  if (impl.numel == 0) return dense_strides(sizes, kContiguous);
  if (impl.dim == 0) return strides;
  // Walk from the last dimension: runs of source dimensions that lie one behind the other can be
  // cut anew; a cut may not cross the border of a run.
  int target = static_cast<int>(sizes.size()) - 1;
  std::int64_t run = 1;
  std::int64_t step = impl.dim > 0 ? impl.strides[impl.dim - 1] : 1;
  for (int d = impl.dim - 1; d >= 0; --d) {
    run *= impl.sizes[d];
    const bool run_ends = d == 0 || (impl.sizes[d - 1] != 1 && impl.strides[d - 1] != run * step);
    if (!run_ends) continue;
    std::int64_t filled = 1;
    while (target >= 0 && (filled < run || sizes[target] == 1)) {
      strides[target] = filled * step;
      filled *= sizes[target--];
    }
    if (filled != run) return std::nullopt;
    if (d > 0) {
      step = impl.strides[d - 1];
      run = 1;
    }
  }
  return target < 0 ? std::optional(strides) : std::nullopt;
}

}  // namespace facula
