// Kernels that work along one dimension: the lines of a tensor in that direction.
#pragma once

#include <algorithm>

#include <facula/parallel.h>

#include "base/divide_up.h"
#include "base/function_ref.h"
#include "base/small_vector.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"

namespace facula::cpu {

/// Calls `f` with a value of the element type, one that is computed with.
template <class F>
void with_type(DType dtype, F f) {
  switch (dtype) {
    case kFloat32: return f(float{});
    case kFloat64: return f(double{});
    case kInt32: return f(std::int32_t{});
    case kInt64: return f(std::int64_t{});
    case kUInt8: return f(std::uint8_t{});
    default: return f(bool{});
  }
}

/// All lines of `a` along `dim`, and those of `b`, which has the same sizes in the other dimensions
/// and may lack `dim`. Where the elements of a line are not neighbours, lines that are come
/// together.
class Lines {
 public:
  static constexpr std::int64_t kMaxLines = 1024;

  Lines(const TensorImpl& a, const TensorImpl& b, int dim, bool b_has_dim) {
    int place = 0;  // of the dimension in b
    for (int d = 0; d < a.dim; ++d) {
      const bool own = d == dim;
      const std::int64_t stride = !own || b_has_dim ? b.strides[place++] : 0;
      const Axis axis{a.sizes[d], a.strides[d], stride};
      if (own) {
        along = axis;
      } else {
        outer_.push_back(axis);
      }
    }
    if (outer_.empty()) return;
    for (Axis& axis : outer_) {  // lines side by side in memory
      if (axis.a == 1 && axis.size > 1) std::swap(axis, outer_.back());
    }
    columns = outer_.back();
    outer_.pop_back();
  }

  struct Axis {
    std::int64_t size = 1;
    std::int64_t a = 1, b = 1;  // strides in elements
  };

  /// Calls body(offset in a, offset in b, n) for groups of n lines, at most `most`; on all threads.
  void for_each(FunctionRef<void(std::int64_t, std::int64_t, std::int64_t)> body,
                std::int64_t most) const {
    const std::int64_t blocks = base::divide_up(columns.size, most);
    std::int64_t groups = blocks;
    for (const Axis& axis : outer_) groups *= axis.size;
    const std::int64_t work = std::max<std::int64_t>(1, along.size) * std::min(columns.size, most);
    const std::int64_t together =
        std::max<std::int64_t>(1, kSliceElements / std::max<std::int64_t>(1, work));
    base::parallel_for(base::divide_up(groups, together), [&](std::int64_t slice) {
      const std::int64_t end = std::min((slice + 1) * together, groups);
      for (std::int64_t i = slice * together; i < end; ++i) {
        const std::int64_t column = i % blocks * most;
        std::int64_t rest = i / blocks, a = column * columns.a, b = column * columns.b;
        for (std::size_t d = outer_.size(); d-- > 0;) {
          a += rest % outer_[d].size * outer_[d].a;
          b += rest % outer_[d].size * outer_[d].b;
          rest /= outer_[d].size;
        }
        body(a, b, std::min(most, columns.size - column));
      }
    });
  }

  /// Lines that are best gone through together: pieces of memory worth the way, beginning with
  /// lines of the caches, and work for all threads. No line knows of the others, so that their
  /// number, which depends on that of the threads, changes no bits.
  std::int64_t together() const {
    if (along.a == 1) return 1;
    const std::int64_t share = columns.size / (2 * get_num_threads());
    return std::clamp<std::int64_t>((share + 15) / 16 * 16, 128, kMaxLines);
  }

  /// The same of lines that are gone through one by one, or a few at a time.
  std::int64_t rows_together() const {
    return std::max<std::int64_t>(1, kSliceElements / std::max<std::int64_t>(1, along.size));
  }

  Axis along, columns;

 private:
  static constexpr std::int64_t kSliceElements = 16384;
  SmallVector<Axis, kMaxDims> outer_;
};

}  // namespace facula::cpu
