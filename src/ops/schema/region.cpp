#include "ops/schema/region.h"

#include <algorithm>

#include "base/check.h"
#include "core/tensor_impl.h"

namespace facula {

Region slice_region(IntList sizes, IntList strides, std::int64_t dim,
                    std::optional<std::int64_t> start, std::optional<std::int64_t> end,
                    std::int64_t step) {
  check<ShapeError>(!sizes.empty(), "slice: a 0-d tensor cannot be sliced; unsqueeze it first");
  check<ValueError>(step >= 1, "slice: step is {}, must be at least 1; use flip to reverse", step);
  const int d = wrap_dim(dim, static_cast<int>(sizes.size()), "slice");
  const std::int64_t size = sizes[d];
  auto bounded = [size](std::int64_t position, std::int64_t low) {
    return std::clamp(position < 0 ? position + size : position, low, size);
  };
  const std::int64_t first = bounded(start.value_or(0), 0);
  const std::int64_t last = bounded(end.value_or(size), first);
  Region region{sizes, strides, first * strides[d]};
  region.sizes[d] = (last - first) / step + ((last - first) % step != 0);
  if (region.sizes[d] > 1) region.strides[d] *= step;
  return region;
}

Region select_region(IntList sizes, IntList strides, std::int64_t dim, std::int64_t index) {
  check<IndexError>(!sizes.empty(), "select: a 0-d tensor cannot be indexed; use item()");
  const int d = wrap_dim(dim, static_cast<int>(sizes.size()), "select");
  const std::int64_t size = sizes[d];
  check<IndexError>(index >= -size && index < size,
                    "select: index {} is out of range for dimension {} of size {}", index, d,
                    sizes);
  Region region{sizes, strides, (index < 0 ? index + size : index) * strides[d]};
  region.sizes.erase(d);
  region.strides.erase(d);
  return region;
}

Region diagonal_region(IntList sizes, IntList strides, std::int64_t offset, std::int64_t dim1,
                       std::int64_t dim2) {
  const int rank = static_cast<int>(sizes.size());
  check<ShapeError>(rank >= 2, "diagonal: a tensor of size {} has no two dimensions", sizes);
  const int row = wrap_dim(dim1, rank, "diagonal"), column = wrap_dim(dim2, rank, "diagonal");
  check<ValueError>(row != column, "diagonal: dim1 and dim2 are both {}; name two dimensions", row);
  const std::int64_t down = offset < 0 ? -std::max(offset, -sizes[row]) : 0;
  const std::int64_t right = offset > 0 ? std::min(offset, sizes[column]) : 0;
  const std::int64_t length = std::min(sizes[row] - down, sizes[column] - right);
  Region region{sizes, strides, 0};
  if (length > 0) region.offset = down * strides[row] + right * strides[column];
  for (int d : {std::max(row, column), std::min(row, column)}) {
    region.sizes.erase(d);
    region.strides.erase(d);
  }
  region.sizes.push_back(length);
  region.strides.push_back(strides[row] + strides[column]);
  return region;
}

}  // namespace facula
