// Matrix products in register tiles: float64, and float32 problems too small for a library.
#include "backends/cpu/matmul.h"

#include <algorithm>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "base/thread_pool.h"

namespace facula::cpu {
namespace {

/// Above, the library's blocking for the caches wins (float32 only; it has no float64).
constexpr std::int64_t kLargestFloat32 = 2 << 20;
/// Multiplications that are worth a slice of their own, about 2 microseconds.
constexpr std::int64_t kSliceWork = 128 << 10;
/// From this many rows on, it pays to transpose the right matrix instead of taking dot products.
constexpr std::int64_t kTransposeRows = 64;
/// Depth that is multiplied at once: a panel of the right matrix stays in the second-level cache.
constexpr std::int64_t kDepth = 512;

template <class T>
struct Tiles {
  const MatmulProblem& p;
  const GemmLoops<T>& loops = gemm_loops<T>();

  const T* left(std::int64_t b) const {
    return reinterpret_cast<const T*>(p.left.data) + b * p.left.batch_stride;
  }
  const T* right(std::int64_t b) const {
    return reinterpret_cast<const T*>(p.right.data) + b * p.right.batch_stride;
  }
  T* out(std::int64_t b) const { return reinterpret_cast<T*>(p.out) + b * p.m * p.n; }
  const T* bias() const { return reinterpret_cast<const T*>(p.bias); }

  /// The rows [i, i + m) and columns [j, j + n) of product b, from rows of both matrices.
  void dots(std::int64_t b, std::int64_t i, std::int64_t m, std::int64_t j, std::int64_t n) const {
    loops.dots({.m = m,
                .n = n,
                .k = p.k,
                .a = {left(b) + i * p.left.row_stride, p.left.row_stride, nullptr},
                .b = {right(b) + j * p.right.column_stride, p.right.column_stride, nullptr},
                .c = out(b) + i * p.n + j,
                .c_stride = p.n,
                .column_bias = bias() ? bias() + j : nullptr,
                .accumulate = false});
  }

  void product(std::int64_t b, std::int64_t i, std::int64_t m, std::int64_t j,
               std::int64_t n) const {
    const std::int64_t deepest = std::min(p.k, kDepth);
    const Scratch<T> packed(m * deepest);
    const bool transposed = !p.right.rows_dense();
    const Scratch<T> rows(transposed ? n * deepest : 0);
    std::int64_t k = 0;
    do {
      const std::int64_t depth = std::min(kDepth, p.k - k);
      loops.pack(left(b) + i * p.left.row_stride + k * p.left.column_stride, p.left.row_stride,
                 p.left.column_stride, m, depth, packed.data());
      const T* block = right(b) + k * p.right.row_stride + j * p.right.column_stride;
      if (transposed) {
        loops.transpose(block, p.right.column_stride, n, depth, rows.data());
        block = rows.data();
      }
      loops.product({.m = m,
                     .n = n,
                     .k = depth,
                     .packed_a = packed.data(),
                     .b = {block, transposed ? n : p.right.row_stride, nullptr},
                     .c = out(b) + i * p.n + j,
                     .c_stride = p.n,
                     .row_bias = nullptr,
                     .column_bias = bias() && k == 0 ? bias() + j : nullptr,
                     .accumulate = k > 0});
      k += depth;
    } while (k < p.k);
  }

  void run() const {
    if (p.batch * p.m * p.n == 0) return;
    const MatmulCut cut = cut_matmul(p, kSliceWork, 2 * loops.rows);
    const bool by_dots =
        p.left.rows_dense() && p.right.columns_dense() && p.m < kTransposeRows && p.k > 0;
    // Slices hold whole batches where the products are tiny.
    const std::int64_t together =
        cut.pieces > 1 ? 1 : std::max<std::int64_t>(1, kSliceWork / std::max<std::int64_t>(1, p.m * p.n * p.k));
    const std::int64_t groups = (p.batch + together - 1) / together;
    base::parallel_for(groups * cut.pieces, [&](std::int64_t slice) {
      const std::int64_t begin = slice % cut.pieces * cut.step;
      const std::int64_t first = slice / cut.pieces * together;
      const std::int64_t length = std::min(cut.step, (cut.by_rows ? p.m : p.n) - begin);
      const std::int64_t i = cut.by_rows ? begin : 0, j = cut.by_rows ? 0 : begin;
      const std::int64_t m = cut.by_rows ? length : p.m, n = cut.by_rows ? p.n : length;
      for (std::int64_t b = first; b < std::min(first + together, p.batch); ++b) {
        by_dots ? dots(b, i, m, j, n) : product(b, i, m, j, n);
      }
    });
  }
};

Refusal refuse(const KernelArgs& args) {
  const Tensor& a = args.in(0);
  if (a.dtype() == kFloat64) return nullptr;
  if (a.dtype() != kFloat32) return "not floating point";
  const std::int64_t inner = std::max<std::int64_t>(1, a.sizes()[a.dim() - 1]);
  const std::int64_t batch = args.call.op.id == OpId::bmm ? a.sizes()[0] : 1;
  if (args.out().numel() * inner > kLargestFloat32 * std::max<std::int64_t>(1, batch)) {
    return "large float32 products are the library's";
  }
  return nullptr;
}

void run(const KernelArgs& args) {
  const MatmulProblem problem = matmul_problem(args);
  problem.dtype == kFloat64 ? Tiles<double>{problem}.run() : Tiles<float>{problem}.run();
}

}  // namespace

void register_matmul_tiles() {
  for (OpId op : {OpId::mm, OpId::bmm, OpId::linear}) add(op, {"register tiles", refuse, run});
}

}  // namespace facula::cpu
