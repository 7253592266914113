#include "ops/schema/shape.h"

#include <algorithm>

#include "base/check.h"
#include "core/tensor_impl.h"
#include "ops/schema/op.h"

namespace facula {

Dims broadcast_sizes(IntList a, IntList b, const char* op) {
  const int rank = static_cast<int>(std::max(a.size(), b.size()));
  Dims result = Dims::filled(rank, 1);
  for (int d = 1; d <= rank; ++d) {
    const std::int64_t x = d <= static_cast<int>(a.size()) ? a[a.size() - d] : 1;
    const std::int64_t y = d <= static_cast<int>(b.size()) ? b[b.size() - d] : 1;
    check<ShapeError>(x == y || x == 1 || y == 1,
                      "{}: sizes {} and {} cannot be broadcast; they must agree or be 1 in every "
                      "dimension counted from the last",
                      op, a, b);
    result[rank - d] = x == 1 ? y : x;
  }
  return result;
}

Dims broadcast_strides(IntList sizes, IntList strides, IntList target) {
  const int lead = static_cast<int>(target.size() - sizes.size());
  Dims result = Dims::filled(static_cast<int>(target.size()), 0);
  for (int d = 0; d < static_cast<int>(sizes.size()); ++d) {
    const bool stretched = sizes[d] == 1 && target[lead + d] != 1;
    result[lead + d] = stretched ? 0 : strides[d];
  }
  return result;
}

Dims normalize_dims(IntList dims, int rank, const char* op) {
  Dims result;
  if (dims.empty()) {
    for (int d = 0; d < rank; ++d) result.push_back(d);
    return result;
  }
  for (std::int64_t d : dims) result.push_back(wrap_dim(d, rank, op));
  std::sort(result.begin(), result.end());
  check<ValueError>(std::adjacent_find(result.begin(), result.end()) == result.end(),
                    "{}: dimension list {} names a dimension twice; list each of the {} once", op,
                    dims, rank);
  if (rank == 0) return {};  // a 0-d tensor accepts 0 and -1, but has no dimension
  return result;
}

Dims reduced_sizes(IntList sizes, IntList dims, bool keepdim) {
  Dims result;
  for (int d = 0; d < static_cast<int>(sizes.size()); ++d) {
    const bool reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
    if (!reduced) {
      result.push_back(sizes[d]);
    } else if (keepdim) {
      result.push_back(1);
    }
  }
  return result;
}

// --- Infer ---------------------------------------------------------------------------------------

const char* Infer::op_name() const { return call_.op.name; }

void Infer::out(DType dtype, IntList sizes, MemoryFormat format) {
  checked_numel(sizes, op_name());
  outputs_.push_back({dtype, sizes, dense_strides(sizes, format), 0, false});
}

void Infer::out_strided(DType dtype, IntList sizes, IntList strides) {
  outputs_.push_back({dtype, sizes, strides, 0, false});
}

void Infer::view(IntList sizes, IntList strides, std::int64_t offset) {
  outputs_.push_back({in(0).dtype(), sizes, strides, offset, true});
}

}  // namespace facula
