// Variance and mean in one pass over memory: every slice of elements, small enough for the caches,
// gives its mean and its sum of squared deviations from that; Chan's formula joins them.
#include "ops/attrs/var_mean.h"

#include <algorithm>
#include <limits>

#include <facula/ops.h>

#include "backends/cpu/caches.h"
#include "backends/cpu/kernels/batch_norm.h"
#include "backends/cpu/loops_of.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/slices.h"
#include "ops/schema/shape.h"

namespace facula::cpu {
namespace {

/// A slice of columns stays in the second-level cache. Few rows would make many moments, and sums
/// in float32 should not be long.
constexpr Slices::Limits kLimits = {.row = 8192,
                                    .shortest_row = 64,
                                    .columns = 1024,
                                    .column_elements = 32768,
                                    .fewest_rows = 128,
                                    .most_rows = 1024,
                                    .narrowest = 2};

template <class T>
const auto& loops() {
  return loops_of<T>(batch_norm_kernels());
}

/// Means and sums of squared deviations of the slices of each result.
template <class T>
class Moments {
 public:
  explicit Moments(const Slices& slices)
      : slices_(slices),
        means_(slices.per_result() * slices.results()),
        deviations_(slices.per_result() * slices.results()) {
    slices.for_each<T>(
        [&](const T* x, std::int64_t n, std::int64_t at) {
          loops<T>().stats_plane(x, n, far_last_level(), means_.data() + at,
                                 deviations_.data() + at);
        },
        [&](const T* x, std::int64_t rows, std::int64_t n, std::int64_t stride, std::int64_t at) {
          loops<T>().stats_rows(x, rows, n, stride, means_.data() + at, deviations_.data() + at);
        });
  }

  /// Variances and means of all results.
  void join(double correction, T* variance, T* mean) const {
    slices_.for_results([&](std::int64_t first, std::int64_t n) {
      join_some(first, n, correction, variance + first, mean + first);
    });
  }

 private:
  /// Of n results from `first` on, slice by slice, as the moments lie in memory.
  void join_some(std::int64_t first, std::int64_t n, double correction, T* variance,
                 T* mean) const {
    double centers[Slices::kJoined] = {}, deviations[Slices::kJoined] = {}, count = 0;
    for (std::int64_t slice = 0; slice < slices_.per_result(); ++slice) {
      const T* own_means = means_.data() + slice * slices_.results() + first;
      const T* own_deviations = deviations_.data() + slice * slices_.results() + first;
      const auto length = static_cast<double>(slices_.length_of(slice));
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

  const Slices& slices_;
  Scratch<T> means_, deviations_;
};

template <class T>
void run(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::var_mean_attrs>();
  const Slices slices(args.in(0), normalize_dims(attrs.dim, args.in(0).dim(), "var_mean"), kLimits);
  if (slices.results() == 0) return;
  Moments<T>(slices).join(static_cast<double>(attrs.correction), args.out(0).impl()->typed<T>(),
                          args.out(1).impl()->typed<T>());
}

void var_mean(const KernelArgs& args) {
  args.in(0).dtype() == kFloat32 ? run<float>(args) : run<double>(args);
}

}  // namespace

void register_var_mean() { add(OpId::var_mean, {"one pass", nullptr, var_mean}); }

}  // namespace facula::cpu
