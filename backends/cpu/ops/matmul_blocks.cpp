// Matrix products too large for the caches, in blocks that stay in them: both matrices are packed,
// a slab of their common dimension at a time, and then multiplied in register tiles. For vectors of
// 256 bits: with longer ones the library is as fast.
#include <algorithm>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/matmul.h"
#include "backends/cpu/scratch.h"
#include "base/cpu_info.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"

namespace facula::cpu {
namespace {

using base::divide_up;

/// Depth of a slab: a panel of the right matrix fills the first-level cache, which those of the
/// left one pass through.
template <class T>
constexpr std::int64_t kDepth = sizeof(T) == sizeof(float) ? 384 : 256;
/// Rows and columns of a task. The rows stay in the second-level cache while the columns go by.
constexpr std::int64_t kTaskRows = 96, kTaskColumns = 128;
/// The most rows and columns, and elements of several matrices, that are packed at once.
constexpr std::int64_t kMostRows = 4096, kPackedElements = 1 << 20;
/// Elements that are worth a task of packing.
constexpr std::int64_t kPackingTask = 16 << 10;

/// Where it is worth packing everything: rows of the left matrix, elements of rows of the right one
/// and of what they have in common. Transposed ones take longer to pack. Elements of a right matrix
/// of doubles, which the library does not multiply.
constexpr std::int64_t kFewestRows = 32, kLongRow = 512, kFewestDepth = 128, kManyRows = 256;
constexpr std::int64_t kFewDoubles = 32 << 10, kManyDoubles = 128 << 10;

/// Something cut into equal parts, each a multiple of `granule` but for the last.
struct Parts {
  std::int64_t size, step, count;

  Parts(std::int64_t size, std::int64_t most, std::int64_t granule)
      : size(size),
        step(divide_up(divide_up(size, divide_up(size, most)), granule) * granule),
        count(divide_up(size, step)) {}

  std::int64_t begin(std::int64_t part) const { return part * step; }
  std::int64_t length(std::int64_t part) const { return std::min(step, size - part * step); }
};

/// Part of the products: of some matrices of the batch some rows, columns and depth.
struct Slab {
  std::int64_t batch, matrices, i, m, j, n, k, depth;
};

template <class T>
class Blocks {
 public:
  explicit Blocks(const MatmulProblem& problem) : p_(problem) {}

  void run() const {
    const Parts depths(p_.k, kDepth<T>, 1), rows(p_.m, kMostRows, loops_.rows),
        columns(p_.n, kMostRows, panel_);
    const std::int64_t own = (rows.step + columns.step) * depths.step;
    const Parts batches(p_.batch, std::max<std::int64_t>(1, kPackedElements / own), 1);
    const Scratch<T> left(batches.step * rows.step * depths.step);
    const Scratch<T> right(batches.step * columns.step * depths.step);
    for (std::int64_t b = 0; b < batches.count; ++b) {
      for (std::int64_t j = 0; j < columns.count; ++j) {
        for (std::int64_t i = 0; i < rows.count; ++i) {
          for (std::int64_t k = 0; k < depths.count; ++k) {
            const Slab slab = {batches.begin(b), batches.length(b), rows.begin(i),
                               rows.length(i),   columns.begin(j),  columns.length(j),
                               depths.begin(k),  depths.length(k)};
            pack(slab, left.data(), right.data());
            multiply(slab, left.data(), right.data());
          }
        }
      }
    }
  }

 private:
  /// Rows and columns of one packed matrix, filled up to whole panels.
  std::int64_t packed_rows(const Slab& s) const {
    return divide_up(s.m, loops_.rows) * loops_.rows;
  }
  std::int64_t packed_columns(const Slab& s) const { return divide_up(s.n, panel_) * panel_; }

  /// Both matrices, all of the slab: panels of rows and of columns, each with its whole depth.
  void pack(const Slab& s, T* to_left, T* to_right) const {
    const std::int64_t most = std::max<std::int64_t>(1, kPackingTask / s.depth);
    const Parts rows(s.m, most, loops_.rows), columns(s.n, most, panel_);
    const std::int64_t tasks = rows.count + columns.count;
    base::parallel_for(s.matrices * tasks, [&](std::int64_t task) {
      const std::int64_t b = task / tasks, part = task % tasks;
      if (part < rows.count) {
        const std::int64_t i = rows.begin(part);
        loops_.pack(p_.left.at<T>(s.batch + b, s.i + i, s.k), p_.left.row_stride,
                    p_.left.column_stride, rows.length(part), s.depth,
                    to_left + (b * packed_rows(s) + i) * s.depth);
        return;
      }
      const std::int64_t first = columns.begin(part - rows.count);
      const std::int64_t end = first + columns.length(part - rows.count);
      const T* from = p_.right.at<T>(s.batch + b, s.k, s.j + first);
      T* const to = to_right + (b * packed_columns(s) + first) * s.depth;
      if (p_.right.rows_dense()) {
        loops_.pack_columns(from, p_.right.row_stride, s.depth, end - first, to);
        return;
      }
      const std::int64_t stride = p_.right.column_stride;
      for (std::int64_t j = 0; j < end - first; j += panel_) {
        loops_.transpose(from + j * stride, stride, std::min(panel_, end - first - j), s.depth,
                         to + j * s.depth, panel_);
      }
    });
  }

  void multiply(const Slab& s, const T* packed_left, const T* packed_right) const {
    const Parts rows(s.m, kTaskRows, loops_.rows), columns(s.n, kTaskColumns, panel_);
    const bool last = s.k + s.depth == p_.k;
    base::parallel_for(s.matrices * rows.count * columns.count, [&](std::int64_t task) {
      const std::int64_t b = task / (rows.count * columns.count);
      const std::int64_t i = rows.begin(task / columns.count % rows.count);
      const std::int64_t m = rows.length(task / columns.count % rows.count);
      const std::int64_t first = columns.begin(task % columns.count);
      const std::int64_t end = first + columns.length(task % columns.count);
      const bool with_bias = p_.bias && s.k == 0;
      for (std::int64_t j = first; j < end; j += panel_) {
        loops_.product(
            {.m = m,
             .n = std::min(panel_, end - j),
             .k = s.depth,
             .packed_a = packed_left + (b * packed_rows(s) + i) * s.depth,
             .b = {packed_right + (b * packed_columns(s) + j) * s.depth, panel_, nullptr},
             .c = p_.out_at<T>(s.batch + b, s.i + i, s.j + j),
             .c_stride = p_.n,
             .row_bias = nullptr,
             .column_bias = with_bias ? p_.bias_at<T>(s.j + j) : nullptr,
             .accumulate = false,
             .join = s.k > 0,
             .next = packed_right + (b * packed_columns(s) + j + panel_) * s.depth,
             .next_size = j + panel_ < end ? panel_ * s.depth : 0});
      }
      if (last)
        p_.activation.apply(p_.out_at<T>(s.batch + b, s.i + i, s.j + first), m, end - first, p_.n);
    });
  }

  const MatmulProblem& p_;
  const GemmLoops<T>& loops_ = gemm_loops<T>();
  const std::int64_t panel_ = loops_.panel_columns;
};

}  // namespace

bool better_in_blocks(const KernelArgs& args) {
  if (base::cpu_capability() != base::CpuCapability::kAvx2) return false;
  const Tensor &a = args.in(0), &b = args.in(1), &out = args.out();
  if (a.numel() == 0 || out.numel() == 0 || !is_floating_point(a.dtype())) return false;
  const std::int64_t depth = a.sizes()[a.dim() - 1], columns = out.sizes()[out.dim() - 1];
  const std::int64_t rows = a.numel() / depth / (args.call.op.id == OpId::bmm ? a.sizes()[0] : 1);
  const bool rows_dense = !is_linear(args.call.op.id) && b.strides()[b.dim() - 1] == 1;
  if (a.dtype() == kFloat64) {
    return rows >= kFewestRows && columns * depth >= (rows_dense ? kManyDoubles : kFewDoubles);
  }
  return rows_dense ? rows >= kFewestRows && columns >= kLongRow && depth >= kFewestDepth
                    : rows >= kManyRows && depth >= kLongRow;
}

void multiply_in_blocks(const MatmulProblem& problem) {
  problem.dtype == kFloat64 ? Blocks<double>(problem).run() : Blocks<float>(problem).run();
}

}  // namespace facula::cpu
