#include "ops/schema/region.h"

#include <algorithm>

#include "base/check.h"
#include "base/small_vector.h"
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

bool meets_elements_once(IntList sizes, IntList strides) {
  SmallVector<int, kMaxDims> order;
  for (int d = 0; d < static_cast<int>(sizes.size()); ++d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] > 1) order.push_back(d);
  }
  std::sort(order.begin(), order.end(), [&](int a, int b) { return strides[a] < strides[b]; });
  std::int64_t reach = 0;
  for (const int d : order) {
    if (strides[d] <= reach) return false;
    reach += (sizes[d] - 1) * strides[d];
  }
  return true;
}

Region strided_region(IntList sizes, IntList strides, std::int64_t offset, std::int64_t numel,
                      const char* op) {
  check<ShapeError>(sizes.size() == strides.size(), "{}: {} strides for {} dimensions", op,
                    strides.size(), sizes.size());
  checked_numel(sizes, op);
  check<ShapeError>(offset >= 0, "{}: storage_offset {} is negative", op, offset);
  std::int64_t last = offset;
  bool fits = true, empty = false;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    check<ShapeError>(strides[d] >= 0, "{}: stride {} has a negative entry", op, strides);
    empty |= sizes[d] == 0;
    std::int64_t reach;
    fits &= !__builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) &&
            !__builtin_add_overflow(last, reach, &last);
  }
  check<ShapeError>(empty || (fits && last < numel),
                    "{}: size {} with stride {} and storage_offset {} goes beyond the {} elements",
                    op, sizes, strides, offset, numel);
  check<ValueError>(meets_elements_once(sizes, strides),
                    "{}: size {} with stride {} meets elements more than once; use expand()", op,
                    sizes, strides);
  return {sizes, strides, offset};
}

}  // namespace facula
