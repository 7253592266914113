// Logarithms of sums of powers, by slices that are read from memory once.
#include "backends/cpu/kernels/logsumexp.h"

#include <facula/ops.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "backends/cpu/loops_of.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/slices.h"
#include "ops/attrs/logsumexp.h"
#include "ops/schema/shape.h"

namespace facula::cpu {
namespace {

/// Shorter rows are transposed, so that lanes need not be joined in each.
template <class T>
constexpr std::int64_t kShortestRow = std::is_same_v<T, float> ? 112 : 40;

template <class T>
constexpr Slices::Limits kLimits = {.row = 65536,
                                    .shortest_row = kShortestRow<T>,
                                    .columns = kLogSumExpColumns,
                                    .column_elements = 65536,
                                    .fewest_rows = 128,
                                    .most_rows = 1024,
                                    .narrowest = 16};

template <class T>
void run(const KernelArgs& args) {
  const auto& loops = loops_of<T>(logsumexp_kernels());
  const Tensor& self = args.in(0);
  const Tensor& out = args.out();
  T* results = out.impl()->typed<T>();
  if (self.numel() == 0) {
    std::fill_n(results, out.numel(), -std::numeric_limits<T>::infinity());
    return;
  }
  const Slices slices(
      self.dtype() == out.dtype() ? self : self.to(out.dtype()),
      normalize_dims(args.attrs<ops::logsumexp_attrs>().dim, self.dim(), "logsumexp"), kLimits<T>);
  const std::int64_t parts = slices.per_result(), stride = slices.results();
  const Scratch<T> shifts(parts * stride), sums(parts * stride);
  slices.for_each<T>(
      [&](const T* x, std::int64_t n, std::int64_t at) {
        loops.row(x, n, shifts.data() + at, sums.data() + at);
      },
      [&](const T* x, std::int64_t rows, std::int64_t n, std::int64_t step, std::int64_t at) {
        loops.columns(x, rows, n, step, shifts.data() + at, sums.data() + at);
      });
  slices.for_results([&](std::int64_t first, std::int64_t n) {
    loops.join(shifts.data() + first, sums.data() + first, parts, stride, n, results + first);
  });
}

void logsumexp(const KernelArgs& args) {
  args.out().dtype() == kFloat32 ? run<float>(args) : run<double>(args);
}

}  // namespace

void register_logsumexp() { add(OpId::logsumexp, {"one pass", nullptr, logsumexp}); }

}  // namespace facula::cpu
