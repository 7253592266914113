// Variance and mean in one pass over memory: every slice of elements, small enough for the caches,
// gives its mean and its sum of squared deviations from that; Chan's formula joins them.
#include "ops/attrs/var_mean.h"

#include <algorithm>
#include <limits>

#include <facula/ops.h>

#include "backends/cpu/kernels/batch_norm.h"
#include "backends/cpu/loops_of.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/schema/shape.h"

namespace facula::cpu {
namespace {

constexpr std::int64_t kSliceElements = 8192;  ///< of a row
/// A slice of columns is so many of them and stays in the second-level cache.
constexpr std::int64_t kColumns = 1024, kColumnElements = 32768;
/// Its rows: few would make many moments, and sums in float32 should not be long.
constexpr std::int64_t kFewestRows = 128, kMostRows = 1024;
/// Results whose slices are joined at once.
constexpr std::int64_t kJoined = 512;

template <class T>
const auto& loops() {
  return loops_of<T>(batch_norm_kernels());
}

using base::divide_up;

/// The problem as a matrix: each row is reduced to one result, or each column.
struct Matrix {
  Tensor values;  ///< the elements in this order
  std::int64_t results, count;
  bool by_columns;
};

Matrix matrix_of(const Tensor& self, const Dims& dims) {
  const int rank = self.dim(), reduced = static_cast<int>(dims.size());
  Matrix m = {self.detach(), 1, 1, false};
  Dims order;
  for (int d = 0; d < rank; ++d) {
    const bool is_reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
    (is_reduced ? m.count : m.results) *= self.sizes()[d];
    if (!is_reduced) order.push_back(d);
  }
  if (m.results == 1 && is_dense(*self.impl())) return m;  // whatever the order
  for (int d : dims) order.push_back(d);
  m.by_columns = self.is_contiguous() && reduced < rank && dims[reduced - 1] == reduced - 1;
  if (!m.by_columns) m.values = permute(m.values, order).contiguous();
  return m;
}

/// Means and sums of squared deviations of `slices` parts of each result.
template <class T>
class Moments {
 public:
  explicit Moments(const Matrix& m)
      : m_(m),
        length_(m.by_columns ? std::clamp(kColumnElements / m.results, kFewestRows, kMostRows)
                             : kSliceElements),
        slices_(divide_up(m.count, length_)),
        means_(slices_ * m.results),
        deviations_(slices_ * m.results) {
    m.by_columns ? reduce_columns() : reduce_rows();
  }

  /// Variances and means of all results.
  void join(double correction, T* variance, T* mean) const {
    base::parallel_for(divide_up(m_.results, kJoined), [&](std::int64_t block) {
      const std::int64_t first = block * kJoined;
      const std::int64_t n = std::min(kJoined, m_.results - first);
      join_some(first, n, correction, variance + first, mean + first);
    });
  }

 private:
  std::int64_t length_of(std::int64_t slice) const {
    return std::min(length_, m_.count - slice * length_);
  }

  void reduce_columns() {
    const T* x = m_.values.impl()->typed<T>();
    const std::int64_t n = m_.results;
    base::parallel_for(divide_up(n, kColumns) * slices_, [&](std::int64_t job) {
      const std::int64_t slice = job % slices_, first = job / slices_ * kColumns;
      const std::int64_t at = slice * n + first;
      loops<T>().stats_rows(x + slice * length_ * n + first, length_of(slice),
                            std::min(kColumns, n - first), n, means_.data() + at,
                            deviations_.data() + at);
    });
  }

  void reduce_rows() {
    const T* x = m_.values.impl()->typed<T>();
    const std::int64_t together =
        std::max<std::int64_t>(1, kSliceElements / std::max<std::int64_t>(1, m_.count));
    base::parallel_for(divide_up(m_.results, together) * slices_, [&](std::int64_t job) {
      const std::int64_t slice = job % slices_, first = job / slices_ * together;
      for (std::int64_t i = first; i < std::min(first + together, m_.results); ++i) {
        const std::int64_t at = slice * m_.results + i;
        loops<T>().stats_plane(x + i * m_.count + slice * length_, length_of(slice),
                               means_.data() + at, deviations_.data() + at);
      }
    });
  }

  /// Of n results from `first` on, slice by slice, as the moments lie in memory.
  void join_some(std::int64_t first, std::int64_t n, double correction, T* variance,
                 T* mean) const {
    double centers[kJoined] = {}, deviations[kJoined] = {}, count = 0;
    for (std::int64_t slice = 0; slice < slices_; ++slice) {
      const T* own_means = means_.data() + slice * m_.results + first;
      const T* own_deviations = deviations_.data() + slice * m_.results + first;
      const auto length = static_cast<double>(length_of(slice));
      const double share = length / (count + length);
      for (std::int64_t i = 0; i < n; ++i) {
        const double difference = static_cast<double>(own_means[i]) - centers[i];
        centers[i] += difference * share;
        deviations[i] +=
            static_cast<double>(own_deviations[i]) + difference * difference * (count * share);
      }
      count += length;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      variance[i] = static_cast<T>(deviations[i] / std::max(0.0, count - correction));
      mean[i] = static_cast<T>(count > 0 ? centers[i] : std::numeric_limits<double>::quiet_NaN());
    }
  }

  const Matrix& m_;
  std::int64_t length_, slices_;
  Scratch<T> means_, deviations_;
};

template <class T>
void run(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::var_mean_attrs>();
  const Matrix m = matrix_of(args.in(0), normalize_dims(attrs.dim, args.in(0).dim(), "var_mean"));
  if (m.results == 0) return;
  Moments<T>(m).join(static_cast<double>(attrs.correction), args.out(0).impl()->typed<T>(),
                     args.out(1).impl()->typed<T>());
}

void var_mean(const KernelArgs& args) {
  args.in(0).dtype() == kFloat32 ? run<float>(args) : run<double>(args);
}

}  // namespace

void register_var_mean() { add(OpId::var_mean, {"one pass", nullptr, var_mean}); }

}  // namespace facula::cpu
