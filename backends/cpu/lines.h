// Kernels that work along one dimension: the lines of a tensor in that direction.
#pragma once

#include <algorithm>

#include "base/function_ref.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"

namespace facula::cpu {

/// All lines of `a` along `dim`, and those of `b`, which has the same sizes in the other
/// dimensions.
class Lines {
 public:
  Lines(const TensorImpl& a, const TensorImpl& b, int dim, bool b_has_dim) {
    int place = 0;  // of the dimension in b
    for (int d = 0; d < a.dim; ++d) {
      if (d == dim) {
        length = a.sizes[d];
        stride_a = a.strides[d];
        if (b_has_dim) stride_b = b.strides[place++];
        continue;
      }
      sizes_.push_back(a.sizes[d]);
      strides_a_.push_back(a.strides[d]);
      strides_b_.push_back(b.strides[place++]);
      count *= a.sizes[d];
    }
  }

  /// Calls body(offset in a, offset in b), in elements, for every line; on all threads.
  void for_each(FunctionRef<void(std::int64_t, std::int64_t)> body) const {
    constexpr std::int64_t kSliceElements = 16384;
    const std::int64_t group =
        std::max<std::int64_t>(1, kSliceElements / std::max<std::int64_t>(1, length));
    base::parallel_for((count + group - 1) / group, [&](std::int64_t slice) {
      const std::int64_t end = std::min((slice + 1) * group, count);
      for (std::int64_t i = slice * group; i < end; ++i) {
        std::int64_t rest = i, a = 0, b = 0;
        for (int d = sizes_.size() - 1; d >= 0; --d) {
          a += rest % sizes_[d] * strides_a_[d];
          b += rest % sizes_[d] * strides_b_[d];
          rest /= sizes_[d];
        }
        body(a, b);
      }
    });
  }

  std::int64_t length = 1, count = 1;
  std::int64_t stride_a = 1, stride_b = 1;  ///< along the line, in elements

 private:
  Dims sizes_, strides_a_, strides_b_;
};

}  // namespace facula::cpu
