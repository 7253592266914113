// Reductions of any dimensions in one pass over memory: slices that fit the caches have partial
// results, which are joined afterwards. Slices depend on the problem alone.
#pragma once

#include <algorithm>

#include <facula/ops.h>

#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"

namespace facula::cpu {

/// The elements of a tensor as matrices of which each column is reduced to one result, or each row.
class Slices {
 public:
  struct Limits {
    std::int64_t row;                     ///< elements of a slice of a row
    std::int64_t shortest_row;            ///< shorter ones become columns
    std::int64_t columns;                 ///< that a slice has at most
    std::int64_t column_elements;         ///< of a slice of columns,
    std::int64_t fewest_rows, most_rows;  ///< but so many rows
    std::int64_t narrowest;               ///< columns that are worth it
  };

  /// `dims` as by normalize_dims().
  Slices(const Tensor& self, const Dims& dims, const Limits& limits)
      : values_(self.detach()), limits_(limits) {
    const int rank = self.dim(), reduced = static_cast<int>(dims.size());
    Dims kept;
    std::int64_t after = 1;
    for (int d = 0; d < rank; ++d) {
      const bool is_reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
      (is_reduced ? count_ : results_) *= self.sizes()[d];
      if (!is_reduced) kept.push_back(d);
      if (reduced > 0 && d > dims[reduced - 1]) after *= self.sizes()[d];
    }
    const bool consecutive = reduced > 0 && dims[reduced - 1] - dims[0] == reduced - 1;
    by_columns_ = self.is_contiguous() && consecutive && after >= limits.narrowest;
    const bool any_order = results_ == 1 && is_dense(*self.impl());
    if (!by_columns_ && !any_order) {
      by_columns_ = count_ < limits.shortest_row && results_ >= limits.narrowest;
      after = results_;
      Dims order = by_columns_ ? dims : kept;
      for (int d : by_columns_ ? kept : dims) order.push_back(d);
      values_ = permute(values_, order).contiguous();
    }
    if (by_columns_) after_ = after;
    length_ = by_columns_ ? std::clamp(std::max(limits.column_elements / after_, count_ / 8),
                                       limits.fewest_rows, limits.most_rows)
                          : limits.row;
    count_of_slices_ = base::divide_up(count_, length_);
  }

  std::int64_t results() const { return results_; }
  /// Partial results of each: that of a slice lies results() after that of the slice before.
  std::int64_t per_result() const { return count_of_slices_; }
  /// Elements of a slice that go into one result.
  std::int64_t length_of(std::int64_t slice) const {
    return std::min(length_, count_ - slice * length_);
  }

  /// Calls of_row(x, n, place of its partial result) or of_columns(x, rows, n, stride, place of the
  /// first one's), for all slices and on all threads.
  template <class T, class OfRow, class OfColumns>
  void for_each(OfRow of_row, OfColumns of_columns) const {
    const T* x = values_.impl()->typed<T>();
    if (!by_columns_) {
      return in_groups(results_ * count_of_slices_, 1, [&](std::int64_t slice, std::int64_t row) {
        of_row(x + row * count_ + slice * length_, length_of(slice), slice * results_ + row);
      });
    }
    const std::int64_t parts = base::divide_up(after_, limits_.columns);
    const std::int64_t blocks = results_ / after_, width = std::min(after_, limits_.columns);
    in_groups(blocks * parts * count_of_slices_, width,
              [&](std::int64_t slice, std::int64_t column) {
                const std::int64_t first = column % parts * width, block = column / parts;
                of_columns(x + (block * count_ + slice * length_) * after_ + first,
                           length_of(slice), std::min(width, after_ - first), after_,
                           slice * results_ + block * after_ + first);
              });
  }

  /// Calls join(first, n) for results that are joined together, at most kJoined, on all threads.
  static constexpr std::int64_t kJoined = 512;
  template <class Join>
  void for_results(Join join) const {
    base::parallel_for(base::divide_up(results_, kJoined), [&](std::int64_t block) {
      const std::int64_t first = block * kJoined;
      join(first, std::min(kJoined, results_ - first));
    });
  }

 private:
  /// Calls body(slice, index) for jobs of at most length_ * width elements, small ones together.
  template <class Body>
  void in_groups(std::int64_t jobs, std::int64_t width, Body body) const {
    constexpr std::int64_t kElements = 8192;
    const std::int64_t size = std::max<std::int64_t>(1, std::min(length_, count_) * width);
    const std::int64_t together = std::max<std::int64_t>(1, kElements / size);
    base::parallel_for(base::divide_up(jobs, together), [&](std::int64_t group) {
      const std::int64_t end = std::min(jobs, (group + 1) * together);
      for (std::int64_t job = group * together; job < end; ++job) {
        body(job % count_of_slices_, job / count_of_slices_);
      }
    });
  }

  Tensor values_;
  Limits limits_;
  std::int64_t results_ = 1, count_ = 1, after_ = 1, length_ = 1, count_of_slices_ = 1;
  bool by_columns_ = false;
};

}  // namespace facula::cpu
