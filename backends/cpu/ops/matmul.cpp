// Matrix products in register tiles: float64; float32 where one of the inputs is transposed, as in
// a linear layer, where the problem is small, or where both inputs are packed (matmul_blocks.cpp).
#include "backends/cpu/matmul.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "base/cpu_info.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"

namespace facula::cpu {
namespace {

/// Multiplications beyond which the library's blocking for the caches wins (float32 only; it has no
/// float64): in general, where rows are multiplied with rows, and of a vector.
constexpr std::int64_t kLargest = 2 << 20;
constexpr std::int64_t kLargestOfRows = 256 << 20;
constexpr std::int64_t kLargestOfVector = 8 << 20;
/// Rows up to this length, at least so many with so many: adding up the lanes of every dot product
/// takes longer than packing one of the matrices, as the library does.
constexpr std::int64_t kShortRow = 256, kManyRows = 32;
/// With so many of any length, 16 registers hold too few sums to keep the processor busy.
constexpr std::int64_t kManyRowsOfFewRegisters = 48;
/// Multiplications that are worth a slice of their own, about 2 microseconds: of products, and of a
/// vector, each of which reads an element.
constexpr std::int64_t kSliceWork = 128 << 10, kSliceWorkOfVector = 32 << 10;
/// In a batch: rows too short for dot products, and multiplications by few columns that are over
/// sooner than a tile has begun.
constexpr std::int64_t kShortRowOfBatch = 8, kTinyWork = 64, kTinySlice = 16 << 10;
constexpr std::int64_t kMostTinyColumns = 4;
/// Elements that are worth a slice where the activation has a pass of its own.
constexpr std::int64_t kActivatedElements = 16 << 10;
/// Depth that is multiplied at once, so that the rows in use stay in the caches.
constexpr std::int64_t kDepth = 512;
constexpr std::int64_t kDepthOfDots = 1024;
/// Where rows are multiplied with rows, those of the right matrix are asked for before their turn
/// from so many rows on, or elements: with less arithmetic, asking takes longer than it saves where
/// they are in the third-level cache.
constexpr std::int64_t kRowsToAskAhead = 4, kElementsToAskAhead = 2 << 20;
/// Products that the library takes longer for, however large, where rows of the right matrix have
/// so many elements: of few rows with such a matrix, which it copies, and of little depth whose
/// results are mostly written, at least so many.
constexpr std::int64_t kFewRows = 16, kLittleDepth = 32, kLongRow = 512, kManyResults = 1 << 20;

template <class T>
class Tiles {
 public:
  explicit Tiles(const MatmulProblem& problem) : p_(problem) {}

  void run() const {
    if (p_.batch * p_.m * p_.n == 0) return;
    if (p_.batch > 1 && p_.n <= kMostTinyColumns && work() <= kTinyWork) return run_tiny();
    const bool dots = p_.left.rows_dense() && p_.right.columns_dense() && p_.k > 0;
    const bool short_rows = p_.batch > 1 && p_.n > 1 && p_.k <= kShortRowOfBatch;
    dots && !short_rows ? run_dots() : run_products();
  }

 private:
  const T* left(std::int64_t b, std::int64_t i, std::int64_t k) const {
    return p_.left.at<T>(b, i, k);
  }
  const T* right(std::int64_t b, std::int64_t k, std::int64_t j) const {
    return p_.right.at<T>(b, k, j);
  }
  T* out(std::int64_t b, std::int64_t i, std::int64_t j) const { return p_.out_at<T>(b, i, j); }
  const T* bias(std::int64_t j) const { return p_.bias_at<T>(j); }
  std::int64_t work() const { return p_.m * p_.n * p_.k; }

  /// Calls body(memory, b, i, m, j, n) for blocks that make up all the products, with what
  /// prepare(m, n) gives to a slice. Tiny products go together.
  template <class Prepare, class Body>
  void for_blocks(const MatmulCut& cut, Prepare prepare, Body body) const {
    const std::int64_t together =
        cut.pieces > 1 ? 1
                       : std::max<std::int64_t>(1, kSliceWork / std::max<std::int64_t>(1, work()));
    const std::int64_t groups = base::divide_up(p_.batch, together);
    base::parallel_for(groups * cut.pieces, [&](std::int64_t slice) {
      const std::int64_t begin = slice % cut.pieces * cut.step;
      const std::int64_t first = slice / cut.pieces * together;
      const std::int64_t length = std::min(cut.step, (cut.by_rows ? p_.m : p_.n) - begin);
      const std::int64_t m = cut.by_rows ? length : p_.m, n = cut.by_rows ? p_.n : length;
      const auto memory = prepare(m, n);
      for (std::int64_t b = first; b < std::min(first + together, p_.batch); ++b) {
        const std::int64_t i = cut.by_rows ? begin : 0, j = cut.by_rows ? 0 : begin;
        body(memory, b, i, m, j, n);
        if (cut.by_rows) p_.activation.apply(out(b, i, j), m, n, p_.n);
      }
    });
    if (!cut.by_rows) activate_rows();
  }

  /// Where the product was cut into columns, which are too few for the loop of the activation.
  void activate_rows() const {
    if (!p_.activation.op()) return;
    const std::int64_t together = std::max<std::int64_t>(1, kActivatedElements / p_.n);
    base::parallel_for(base::divide_up(p_.m, together), [&](std::int64_t slice) {
      const std::int64_t i = slice * together;
      p_.activation.apply(out(0, i, 0), std::min(together, p_.m - i), p_.n, p_.n);
    });
  }

  /// A batch of tiny products, such as those of poses.
  void run_tiny() const {
    const std::int64_t together = kTinySlice / std::max<std::int64_t>(1, work());
    base::parallel_for(base::divide_up(p_.batch, together), [&](std::int64_t slice) {
      const std::int64_t first = slice * together, end = std::min(first + together, p_.batch);
      static_assert(kMostTinyColumns == 4);
      switch (p_.n) {
        case 1: return tiny<1>(first, end);
        case 2: return tiny<2>(first, end);
        case 3: return tiny<3>(first, end);
        default: return tiny<4>(first, end);
      }
    });
  }

  template <int N>
  void tiny(std::int64_t first, std::int64_t end) const {
    const std::int64_t row = p_.left.row_stride, step = p_.left.column_stride;
    const std::int64_t next = p_.right.row_stride, column = p_.right.column_stride;
    const std::int64_t m = p_.m, depth = p_.k;
    for (std::int64_t b = first; b < end; ++b) {
      const T *own = left(b, 0, 0), *other = right(b, 0, 0);
      T* to = out(b, 0, 0);
      for (std::int64_t i = 0; i < m; ++i, own += row, to += N) {
        T sums[N] = {};
        for (std::int64_t k = 0; k < depth; ++k) {
          for (int j = 0; j < N; ++j) sums[j] += own[k * step] * other[k * next + j * column];
        }
        std::copy_n(sums, N, to);
      }
    }
  }

  /// Both matrices are read along their rows: nothing is packed or transposed.
  void run_dots() const {
    const bool by_rows = p_.m >= p_.n, vector = std::min(p_.m, p_.n) == 1;
    const std::int64_t slices = work() / (vector ? kSliceWorkOfVector : kSliceWork);
    const MatmulCut cut(by_rows, by_rows ? p_.m : p_.n, slices, by_rows ? 12 : 8);
    const std::int64_t parts = std::min(work() / kSliceWork, p_.k / kDepthOfDots);
    if (p_.batch == 1 && cut.pieces == 1 && parts > 1) return run_long_dots(parts);
    for_blocks(
        cut, [](std::int64_t, std::int64_t) { return nullptr; },
        [&](std::nullptr_t, std::int64_t b, std::int64_t i, std::int64_t m, std::int64_t j,
            std::int64_t n) { dots(b, i, m, j, n, 0, p_.k, out(b, i, j)); });
  }

  /// Few results of long rows, which are cut into parts; these are added up in order.
  void run_long_dots(std::int64_t most) const {
    const std::int64_t blocks = base::divide_up(p_.k, kDepthOfDots);
    const std::int64_t length = base::divide_up(blocks, most) * kDepthOfDots;
    const std::int64_t parts = base::divide_up(p_.k, length), size = p_.m * p_.n;
    const Scratch<T> sums(parts * size);
    base::parallel_for(parts, [&](std::int64_t part) {
      const std::int64_t first = part * length;
      dots(0, 0, p_.m, 0, p_.n, first, std::min(first + length, p_.k), sums.data() + part * size);
    });
    for (std::int64_t i = 0; i < size; ++i) {
      T total = sums[i];
      for (std::int64_t part = 1; part < parts; ++part) total += sums[part * size + i];
      *out(0, 0, i) = total;
    }
    activate_rows();
  }

  /// c[m, n] = the products of m rows from i on and n columns from j on, over their elements from
  /// `first` to `last`; rows of c are as far apart as those of the output.
  void dots(std::int64_t b, std::int64_t i, std::int64_t m, std::int64_t j, std::int64_t n,
            std::int64_t first, std::int64_t last, T* c) const {
    DotBlock<T> block = {.m = m,
                         .n = n,
                         .k = 0,
                         .a = {left(b, i, first), p_.left.row_stride, nullptr},
                         .b = {right(b, first, j), p_.right.column_stride, nullptr},
                         .batch = 1,
                         .a_step = 0,
                         .b_step = 0,
                         .c = c,
                         .c_stride = p_.n,
                         .column_bias = first == 0 ? bias(j) : nullptr,
                         .accumulate = false,
                         .ahead = p_.m >= kRowsToAskAhead || p_.n * p_.k >= kElementsToAskAhead};
    if (p_.n == 1 && !p_.bias) {
      // As a vector with rows, whose products are written side by side.
      std::swap(block.m, block.n);
      std::swap(block.a, block.b);
      block.c_stride = m;
      block.ahead = false;
    }
    for (std::int64_t k = first; k < last; k += kDepthOfDots) {
      block.k = std::min(kDepthOfDots, last - k);
      loops_.dots(block);
      block.a.data += kDepthOfDots;
      block.b.data += kDepthOfDots;
      block.column_bias = nullptr;
      block.accumulate = true;
    }
  }

  /// The left matrix is packed by every slice: cut by rows where there are enough of them.
  void run_products() const {
    const bool by_rows = p_.m >= 8 * loops_.rows || p_.m >= p_.n;
    const MatmulCut cut(by_rows, by_rows ? p_.m : p_.n, work() / kSliceWork,
                        by_rows ? loops_.rows : loops_.columns);
    for_blocks(
        cut, [&](std::int64_t m, std::int64_t n) { return Packed(*this, m, n); },
        [&](const Packed& packed, std::int64_t b, std::int64_t i, std::int64_t m, std::int64_t j,
            std::int64_t n) { product(packed, b, i, m, j, n); });
  }

  /// Room for the left matrix in the order of the loops, and for the right one if it is transposed.
  struct Packed {
    Packed(const Tiles& tiles, std::int64_t m, std::int64_t n)
        : left(tiles.loops_.packed_size(m, tiles.deepest())),
          rows(tiles.p_.right.rows_dense() ? 0 : n * tiles.deepest()) {}
    Scratch<T> left, rows;
  };
  std::int64_t deepest() const { return std::min(p_.k, kDepth); }

  void product(const Packed& packed, std::int64_t b, std::int64_t i, std::int64_t m, std::int64_t j,
               std::int64_t n) const {
    const bool transposed = !p_.right.rows_dense();
    std::int64_t k = 0;
    do {
      const std::int64_t depth = std::min(kDepth, p_.k - k);
      loops_.pack(left(b, i, k), p_.left.row_stride, p_.left.column_stride, m, depth,
                  packed.left.data());
      const T* block = right(b, k, j);
      if (transposed) {
        loops_.transpose(block, p_.right.column_stride, n, depth, packed.rows.data(), n);
        block = packed.rows.data();
      }
      loops_.product({.m = m,
                      .n = n,
                      .k = depth,
                      .packed_a = packed.left.data(),
                      .b = {block, transposed ? n : p_.right.row_stride, nullptr},
                      .c = out(b, i, j),
                      .c_stride = p_.n,
                      .row_bias = nullptr,
                      .column_bias = k == 0 ? bias(j) : nullptr,
                      .accumulate = k > 0,
                      .ahead = !transposed && p_.m <= kFewRows});
      k += depth;
    } while (k < p_.k);
  }

  const MatmulProblem& p_;
  const GemmLoops<T>& loops_ = gemm_loops<T>();
};

/// [rows, depth] times the [depth, columns] of rows that lie dense, faster here whatever their size
/// with AVX-512.
bool better_in_tiles(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  if (!base::uses_avx512() || columns < kLongRow) return false;
  return (rows <= kFewRows && columns * depth >= kElementsToAskAhead) ||
         (depth <= kLittleDepth && rows * columns >= kManyResults);
}

Refusal refuse(const KernelArgs& args) {
  const Tensor& a = args.in(0);
  const Tensor& b = args.in(1);
  if (better_in_blocks(args)) return nullptr;
  if (a.dtype() == kFloat64) return nullptr;
  if (a.dtype() != kFloat32) return "not floating point";
  const std::int64_t batch =
      args.call.op.id == OpId::bmm ? std::max<std::int64_t>(1, a.sizes()[0]) : 1;
  const std::int64_t depth = std::max<std::int64_t>(1, a.sizes()[a.dim() - 1]);
  // Which of its dimensions lies dense decides whether the right matrix is read along its rows.
  const bool linear = is_linear(args.call.op.id);
  const bool of_rows =
      b.strides()[b.dim() - (linear ? 1 : 2)] == 1 && a.strides()[a.dim() - 1] == 1;
  const std::int64_t columns = std::max<std::int64_t>(1, args.out().sizes()[args.out().dim() - 1]);
  const std::int64_t rows = args.out().numel() / (batch * columns);
  const bool vector = !linear && std::min(rows, columns) == 1;
  const std::int64_t largest = of_rows ? kLargestOfRows : vector ? kLargestOfVector : kLargest;
  const bool dense_rows = !linear && b.strides()[b.dim() - 1] == 1;
  if (args.out().numel() * depth > batch * largest &&
      !(dense_rows && better_in_tiles(rows, columns, depth))) {
    return "large float32 products are the library's";
  }
  const bool empty_rows = a.sizes()[a.dim() - 1] == 0;
  if (of_rows && !empty_rows && std::min(rows, columns) >= kManyRows &&
      (depth <= kShortRow ||
       (!base::uses_avx512() && std::min(rows, columns) >= kManyRowsOfFewRegisters))) {
    return "many rows are the library's";
  }
  return nullptr;
}

void run(const KernelArgs& args) {
  const MatmulProblem problem = matmul_problem(args);
  if (better_in_blocks(args)) return multiply_in_blocks(problem);
  problem.dtype == kFloat64 ? Tiles<double>(problem).run() : Tiles<float>(problem).run();
}

}  // namespace

void register_matmul_tiles() {
  for (OpId op : kProducts) add(op, {"register tiles", refuse, run});
}

}  // namespace facula::cpu
