#include "backends/cpu/reduction.h"

#include <algorithm>

#include "backends/cpu/caches.h"
#include "backends/cpu/kernels/interleave.h"
#include "backends/cpu/scratch.h"
#include "base/check.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/schema/reduction.h"
#include "ops/schema/shape.h"

namespace facula::cpu {

const ReductionLoops* reduction_loops[static_cast<int>(OpId::count)] = {};

namespace {

using base::divide_up;

/// Elements a slice reduces; a longer reduction is cut into several whose totals are joined in a
/// tree.
constexpr std::int64_t kSliceElements = 32768;
/// One thread is done with so few before another has heard of them and fetched them from its cache.
constexpr std::int64_t kAloneElements = 65536;
/// Rows a slice of columns has if there are as many, even if they are long: fewer totals to join.
/// If that makes fewer than so many slices, they have fewer columns.
constexpr std::int64_t kFewestRows = 64, kFewestSlices = 16;
/// Loops add up so many rows at once.
constexpr std::int64_t kRowsTogether = 8;

/// Results a slice of rows has at most, and bytes that each may take meanwhile.
constexpr std::int64_t kMostResults = 1024, kMostAccumulatorBytes = 16;

struct Axis {
  std::int64_t size;
  std::int64_t stride;  // bytes
};
using Axes = SmallVector<Axis, kMaxDims>;

/// Joins neighbouring axes (outermost first) that one stride covers.
Axes merged(const Axes& axes) {
  Axes result;
  for (const Axis& axis : axes) {
    if (axis.size == 1) continue;
    if (!result.empty() && result.back().stride == axis.stride * axis.size) {
      result.back() = {result.back().size * axis.size, axis.stride};
    } else {
      result.push_back(axis);
    }
  }
  return result;
}

std::int64_t rounded_up(std::int64_t n, std::int64_t to) { return divide_up(n, to) * to; }

std::int64_t product(const Axes& axes) {
  std::int64_t n = 1;
  for (const Axis& axis : axes) n *= axis.size;
  return n;
}

/// Byte offset of flat position `i` in the space of `axes`.
std::int64_t offset_of(const Axes& axes, std::int64_t i) {
  if (axes.empty()) return 0;
  std::int64_t offset = 0;
  for (std::size_t k = axes.size() - 1; k > 0; --k) {
    offset += i % axes[k].size * axes[k].stride;
    i /= axes[k].size;
  }
  return offset + i * axes[0].stride;
}

class Reducer {
 public:
  Reducer(const ReductionLoops& loops, const Tensor& input, const Dims& dims, const Tensor& out)
      : loops_(loops),
        base_(reinterpret_cast<const char*>(input.impl()->data)),
        out_(reinterpret_cast<char*>(out.impl()->data)),
        out_size_(static_cast<std::int64_t>(size_of(out.dtype()))) {
    const TensorImpl& impl = *input.impl();
    const auto size = static_cast<std::int64_t>(size_of(impl.dtype));
    for (int d = 0; d < impl.dim; ++d) {
      const bool reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
      (reduced ? reduced_ : kept_).push_back({impl.sizes[d], impl.strides[d] * size});
    }
    kept_ = merged(kept_);
    // The order in which reduced elements are visited is free: follow memory.
    std::stable_sort(reduced_.begin(), reduced_.end(),
                     [](const Axis& a, const Axis& b) { return a.stride > b.stride; });
    reduced_ = merged(reduced_);
    element_bytes_ = size;
    count_ = product(reduced_);
    results_ = product(kept_);
  }

  void run() {
    if (results_ == 0) return;
    if (count_ == 0) return run_empty();
    const bool kept_is_contiguous = !kept_.empty() && kept_.back().stride == element_bytes_;
    const bool reduced_is_contiguous =
        !reduced_.empty() && reduced_.back().stride == element_bytes_;
    if (kept_is_contiguous && !reduced_.empty() && !reduced_is_contiguous) {
      run_columns();
    } else {
      run_rows();
    }
  }

 private:
  void run_empty() {
    const Scratch<char> totals(results_ * static_cast<std::int64_t>(loops_.accumulator_bytes));
    loops_.identity(totals.data(), results_);
    loops_.finish(totals.data(), results_, 0, out_);
  }

  /// Joins `count` groups of `width` totals, `pitch` totals apart, pairwise into the first.
  void join(char* totals, std::int64_t count, std::int64_t width, std::int64_t pitch) const {
    const std::int64_t bytes = pitch * static_cast<std::int64_t>(loops_.accumulator_bytes);
    for (std::int64_t step = 1; step < count; step *= 2) {
      for (std::int64_t i = 0; i + step < count; i += 2 * step) {
        loops_.combine(totals + i * bytes, totals + (i + step) * bytes, width);
      }
    }
  }

  /// Rows of few elements, one behind the other, go by columns, once these are rows of their own.
  void reduce_tiny_rows(const char* rows, std::int64_t n, std::int64_t length, char* totals) const {
    // Rows lie further apart than they are long: otherwise loops would take few columns for narrow
    // ones, of which they add up several rows side by side, in another order.
    constexpr std::int64_t kStride = kMostResults + kNarrowColumns;
    alignas(64) char columns[kMostInterleaved * kStride * sizeof(std::uint64_t)];
    const auto split = [&](auto element) {
      using E = decltype(element);
      interleave_loops<E>().split(reinterpret_cast<const E*>(rows), length, n,
                                  reinterpret_cast<E*>(columns), kStride);
    };
    switch (element_bytes_) {
      case 1: split(std::uint8_t{}); break;
      case 4: split(std::uint32_t{}); break;
      default: split(std::uint64_t{});
    }
    loops_.columns(columns, length, kStride * element_bytes_, n, false, totals);
  }

  /// Totals of results [first, first + n), each of the `length` reduced positions from `begin` on,
  /// which neighbour along the innermost reduced axis.
  void reduce_rows(std::int64_t first, std::int64_t n, std::int64_t begin, std::int64_t length,
                   char* totals) const {
    const std::int64_t stride = reduced_.empty() ? element_bytes_ : reduced_.back().stride;
    const Axis kept = kept_.empty() ? Axis{1, 0} : kept_.back();
    const char* base = base_ + offset_of(reduced_, begin);
    // Unlike maps, sums gain by asking wherever memory is read, and lose in the caches.
    const bool ask = results_ * count_ * element_bytes_ > most_near_bytes();
    for (std::int64_t i = 0; i < n;) {
      const std::int64_t count = std::min(n - i, kept.size - (first + i) % kept.size);
      const char* rows = base + offset_of(kept_, first + i);
      char* to = totals + i * static_cast<std::int64_t>(loops_.accumulator_bytes);
      if (length >= kFewestInterleaved && length <= kMostInterleaved && stride == element_bytes_ &&
          kept.stride == length * element_bytes_) {
        reduce_tiny_rows(rows, count, length, to);
      } else {
        loops_.rows(rows, count, kept.stride, length, stride, ask, to);
      }
      i += count;
    }
  }

  /// Slices follow memory: where a result takes in several runs of neighbours, as a channel does of
  /// each image, the runs of all results that lie together are read before the next run of each.
  void run_rows() {
    const std::int64_t run = reduced_.empty() ? 1 : reduced_.back().size;
    const std::int64_t repeats = count_ / run;
    const std::int64_t cuts = divide_up(run, kSliceElements);
    const std::int64_t rows =
        std::clamp(kSliceElements / run, std::int64_t{1}, std::min(results_, kMostResults));
    const std::int64_t blocks = divide_up(results_, rows);
    const std::int64_t repeats_per_slice =
        std::clamp(kSliceElements / (rows * run), std::int64_t{1}, repeats);
    const std::int64_t groups = divide_up(repeats, repeats_per_slice);
    const std::int64_t parts = groups * cuts;
    const auto bytes = static_cast<std::int64_t>(loops_.accumulator_bytes);
    const Scratch<char> scratch(parts > 1 ? parts * results_ * bytes : 0);
    const auto run_slice = [&](std::int64_t slice) {
      alignas(64) char own[kMostResults * kMostAccumulatorBytes];
      alignas(64) char piece[kMostResults * kMostAccumulatorBytes];
      const std::int64_t cut = slice % cuts, first = slice / cuts % blocks * rows;
      const std::int64_t group = slice / cuts / blocks;
      const std::int64_t n = std::min(rows, results_ - first);
      const std::int64_t length = std::min(kSliceElements, run - cut * kSliceElements);
      const std::int64_t begin = group * repeats_per_slice;
      char* totals =
          parts > 1 ? scratch.data() + ((group * cuts + cut) * results_ + first) * bytes : own;
      for (std::int64_t r = begin; r < std::min(begin + repeats_per_slice, repeats); ++r) {
        const std::int64_t position = r * run + cut * kSliceElements;
        reduce_rows(first, n, position, length, r == begin ? totals : piece);
        if (r != begin) loops_.combine(totals, piece, n);
      }
      if (parts == 1) finish(totals, first, n);
    };
    const std::int64_t slices = groups * blocks * cuts;
    if (results_ * count_ <= kAloneElements) {
      for (std::int64_t slice = 0; slice < slices; ++slice) run_slice(slice);
    } else {
      base::parallel_for(slices, run_slice);
    }
    if (parts == 1) return;
    base::parallel_for(divide_up(results_, kMostResults), [&](std::int64_t block) {
      const std::int64_t first = block * kMostResults;
      const std::int64_t n = std::min(kMostResults, results_ - first);
      join(scratch.data() + first * bytes, parts, n, results_);
      finish(scratch.data() + first * bytes, first, n);
    });
  }

  void finish(const char* totals, std::int64_t first, std::int64_t n) const {
    loops_.finish(totals, n, static_cast<double>(count_), out_ + first * out_size_);
  }

  /// How kept columns, which lie beside each other, and reduced rows are cut into slices: `blocks`
  /// of columns of each of `groups` matrices, `cuts` of the rows of each of those.
  struct Cuts {
    explicit Cuts(const Reducer& reducer)
        : columns(reducer.kept_.back().size),
          rows(reducer.reduced_.back().size),
          outer(reducer.kept_.begin(), reducer.kept_.end() - 1),
          groups(product(outer)),
          most(static_cast<std::int64_t>(kMostColumnBytes / reducer.loops_.accumulator_bytes)) {
      const std::int64_t widest = std::min(columns, most);
      const std::int64_t most_rows =
          rounded_up(std::max(kSliceElements / widest, std::min(kFewestRows, rows)), kRowsTogether);
      cuts_of_rows = divide_up(rows, most_rows);
      rows_per_cut = rounded_up(divide_up(rows, cuts_of_rows), kRowsTogether);
      cuts = reducer.count_ / rows * cuts_of_rows;
      const std::int64_t wanted = divide_up(columns, divide_up(kFewestSlices, groups * cuts));
      width = std::min(widest,
                       rounded_up(std::max(wanted, kSliceElements / rows_per_cut), kNarrowColumns));
      blocks = divide_up(columns, width);
    }

    std::int64_t first_column(std::int64_t block) const { return block % blocks * width; }
    std::int64_t width_of(std::int64_t block) const {
      return std::min(width, columns - first_column(block));
    }

    std::int64_t columns, rows;
    Axes outer;
    std::int64_t groups, most;  ///< totals that loops take at once
    std::int64_t cuts_of_rows, rows_per_cut, cuts, width, blocks;
  };

  void run_columns() {
    const Cuts c(*this);
    const std::int64_t whole = c.groups * c.columns * count_ * element_bytes_;
    const bool in_order =
        c.columns <= kNarrowColumns && reduced_.back().stride == c.columns * element_bytes_;
    const bool ask = in_order ? worth_asking(whole) : whole > most_near_bytes();
    if (c.cuts == 1) {
      const bool small = c.rows <= kFewRows && c.columns < kFewColumns;
      return small && c.outer.size() == 1 ? run_small_matrices(c) : run_whole_columns(c, ask);
    }
    const std::int64_t bytes = c.width * static_cast<std::int64_t>(loops_.accumulator_bytes);
    const Scratch<char> totals(c.groups * c.blocks * c.cuts * bytes);
    base::parallel_for(c.groups * c.blocks * c.cuts, [&](std::int64_t slice) {
      reduce_columns(c, slice / c.cuts, slice % c.cuts, ask, totals.data() + slice * bytes);
    });
    base::parallel_for(c.groups * c.blocks, [&](std::int64_t block) {
      char* own = totals.data() + block * c.cuts * bytes;
      join(own, c.cuts, c.width_of(block), c.width);
      finish_columns(c, block, c.width_of(block), own);
    });
  }

  /// Matrices of few rows and columns, one distance apart: of the same column of many of them, each
  /// is a row.
  void run_small_matrices(const Cuts& c) const {
    constexpr std::int64_t kTogether = 256, kNearBytes = 16384;  // in the nearest cache
    const Axis matrices = c.outer.front();
    const std::int64_t size = c.rows * c.columns;
    const std::int64_t together =
        std::clamp(kNearBytes / (size * element_bytes_), std::int64_t{8}, kTogether);
    const std::int64_t per_slice = std::max(together, kSliceElements / size);
    base::parallel_for(divide_up(c.groups, per_slice), [&](std::int64_t slice) {
      alignas(64) char totals[kTogether * kMostAccumulatorBytes];
      alignas(64) char results[kTogether * sizeof(std::uint64_t)];
      const std::int64_t end = std::min(c.groups, (slice + 1) * per_slice);
      for (std::int64_t first = slice * per_slice; first < end; first += together) {
        const std::int64_t n = std::min(together, end - first);
        for (std::int64_t column = 0; column < c.columns; ++column) {
          loops_.rows(base_ + first * matrices.stride + column * element_bytes_, n, matrices.stride,
                      c.rows, reduced_.back().stride, false, totals);
          loops_.finish(totals, n, static_cast<double>(count_), results);
          spread(results, n, c.columns, out_ + (first * c.columns + column) * out_size_);
        }
      }
    });
  }

  /// Writes n results `step` places apart.
  void spread(const char* results, std::int64_t n, std::int64_t step, char* out) const {
    const auto write = [&](auto element) {
      using E = decltype(element);
      for (std::int64_t i = 0; i < n; ++i) {
        reinterpret_cast<E*>(out)[i * step] = reinterpret_cast<const E*>(results)[i];
      }
    };
    switch (out_size_) {
      case 1: return write(std::uint8_t{});
      case 4: return write(std::uint32_t{});
      default: return write(std::uint64_t{});
    }
  }

  /// Where rows are not cut. Small matrices go together; their columns are not cut either.
  void run_whole_columns(const Cuts& c, bool ask) const {
    const std::int64_t fit = std::min(kSliceElements / (c.rows * c.width), c.most / c.width);
    const std::int64_t together = std::clamp(fit, std::int64_t{1}, c.blocks == 1 ? c.groups : 1);
    const std::int64_t all = c.groups * c.blocks;
    base::parallel_for(divide_up(all, together), [&](std::int64_t slice) {
      alignas(64) char own[kMostColumnBytes];
      const std::int64_t begin = slice * together;
      std::int64_t n = 0;
      for (std::int64_t block = begin; block < std::min(begin + together, all); ++block) {
        reduce_columns(c, block, 0, ask,
                       own + n * static_cast<std::int64_t>(loops_.accumulator_bytes));
        n += c.width_of(block);
      }
      finish_columns(c, begin, n, own);
    });
  }

  void reduce_columns(const Cuts& c, std::int64_t block, std::int64_t cut, bool ask,
                      char* totals) const {
    const std::int64_t row = cut % c.cuts_of_rows * c.rows_per_cut;
    const char* first = base_ + offset_of(c.outer, block / c.blocks) +
                        c.first_column(block) * element_bytes_ +
                        offset_of(reduced_, cut / c.cuts_of_rows * c.rows + row);
    loops_.columns(first, std::min(c.rows_per_cut, c.rows - row), reduced_.back().stride,
                   c.width_of(block), ask, totals);
  }

  void finish_columns(const Cuts& c, std::int64_t block, std::int64_t n, const char* totals) const {
    finish(totals, block / c.blocks * c.columns + c.first_column(block), n);
  }

  const ReductionLoops& loops_;
  const char* base_;
  char* out_;
  std::int64_t out_size_;
  std::int64_t element_bytes_ = 0;
  std::int64_t count_ = 0;
  std::int64_t results_ = 0;
  Axes kept_, reduced_;
};

void reduce(const Op& op, const Tensor& input, const Dims& dims, const Tensor& out) {
  const ReductionLoops& loops =
      reduction_loops[static_cast<int>(op.id)][static_cast<int>(input.dtype())];
  Reducer(loops, input, dims, out).run();
}

Dims dims_of(const KernelArgs& args) {
  return normalize_dims(args.attrs<ReductionAttrs>().dim, args.in(0).dim(), args.call.op.name);
}

}  // namespace

void run_reduction(const KernelArgs& args) {
  reduce(args.call.op, args.in(0), dims_of(args), args.out());
}

void run_reduction_reference(const KernelArgs& args) {
  if (args.in(0).dtype() != kFloat32) return run_reduction(args);
  const bool predicate = args.call.op.def.reduction->predicate;
  const Tensor wide = new_tensor(args.out().sizes(), predicate ? kBool : kFloat64, kCPU);
  reduce(args.call.op, args.in(0).to(kFloat64), dims_of(args), wide);
  args.out().copy_(wide);
}

}  // namespace facula::cpu
