// gather, scatter, scatter_add, index_select and index_add.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/copy.h"
#include "backends/cpu/registration.h"
#include "base/check.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/attrs/gather.h"
#include "ops/attrs/index_add.h"
#include "ops/attrs/index_select.h"
#include "ops/attrs/scatter.h"
#include "ops/attrs/scatter_add.h"

namespace facula::cpu {
namespace {

constexpr std::int64_t kSliceElements = 16384;
/// Elements from which on a function call takes less than what it saves.
constexpr std::int64_t kLongRow = 32;
/// Rows that are asked for before their turn.
constexpr std::int64_t kRowsAhead = 4;
enum class Action { gather, scatter, scatter_add };

/// All ops are one loop over the positions of `values`, in which self[..., index, ...] and the
/// value at the position meet. The loop has three levels: outer positions, entries along `dim`, and
/// columns of the dimension whose elements are neighbours or else of the last one (a single column
/// where that is `dim` itself, unless that has few entries). Positions that differ in `dim` only
/// may write to one place, so they belong to one slice and keep their order.
class Indexed {
 public:
  Indexed(const Tensor& self, const Tensor& values, const Tensor& index, IntList index_strides,
          int dim)
      : index_(index.impl()->typed<std::int64_t>()),
        self_(self.impl()->data),
        values_(values.impl()->data) {
    const TensorImpl& table = *self.impl();
    const TensorImpl& grid = *values.impl();
    limit_ = table.dim > 0 ? table.sizes[dim] : 1;
    const int columns = column_dim(table, grid, dim);
    for (int d = 0; d < grid.dim; ++d) {
      const Axis axis{grid.sizes[d], table.strides[d], grid.strides[d], index_strides[d]};
      if (d == dim) {
        along_ = axis;
      } else if (d == columns) {
        columns_ = axis;
      } else {
        outer_.push_back(axis);
      }
    }
    units_ = 1;
    for (const Axis& axis : outer_) units_ *= axis.size;
  }

  /// `E` is the element type, for copies any type of its size.
  template <Action action, class E>
  void run(E alpha, const char* op) const {
    if (units_ == 0 || along_.size == 0 || columns_.size == 0) return;
    // Columns per slice: a table with one row per index has little else to cut for writing.
    const std::int64_t block =
        action == Action::gather ? 4096 : std::clamp<std::int64_t>(columns_.size / 16, 64, 4096);
    const std::int64_t blocks = base::divide_up(columns_.size, block);
    const std::int64_t work = along_.size * std::min(columns_.size, block);
    const std::int64_t group = std::max<std::int64_t>(1, kSliceElements / work);
    // Reading may be cut anywhere; writing only between places.
    const std::int64_t cuts = action == Action::gather ? (work - 1) / kSliceElements + 1 : 1;
    const std::int64_t rows = base::divide_up(along_.size, cuts);
    const std::int64_t pieces = units_ * blocks;
    base::parallel_for(base::divide_up(pieces, group) * cuts, [&](std::int64_t slice) {
      const std::int64_t first = slice % cuts * rows;
      const std::int64_t end = std::min(first + rows, along_.size);
      const std::int64_t begin = slice / cuts * group, last = std::min(begin + group, pieces);
      if (columns_.size == 1) return run_units<action, E>(begin, last, first, end, alpha, op);
      for (std::int64_t i = begin; i < last; ++i) {
        const std::int64_t column = i % blocks * block;
        run_piece<action, E>(i / blocks, column, std::min(block, columns_.size - column), first,
                             end, alpha, op);
      }
    });
  }

 private:
  struct Axis {
    std::int64_t size = 1;
    std::int64_t self = 0, values = 0, index = 0;  // strides in elements
  };

  /// Few neighbours, or entries along the last dimension, are not worth a loop of their own.
  static int column_dim(const TensorImpl& table, const TensorImpl& grid, int dim) {
    constexpr std::int64_t kFewNeighbours = 8, kFewEntries = 4;
    for (int d = grid.dim; d-- > 0;) {
      const bool neighbours = table.strides[d] == 1 && grid.strides[d] == 1;
      if (d != dim && neighbours && grid.sizes[d] >= kFewNeighbours) return d;
    }
    const int last = grid.dim - 1;
    return dim == last && last > 0 && grid.sizes[last] < kFewEntries ? last - 1 : last;
  }

  std::int64_t checked(std::int64_t index, const char* op) const {
    check<IndexError>(index >= 0 && index < limit_,
                      "{}: index {} is out of range for a dimension of size {}; use 0 to {}", op,
                      index, limit_, limit_ - 1);
    return index;
  }

  /// Asks for the beginning of a row of n elements that comes soon: processors foresee the rest.
  template <class E>
  void ask_for(const E* self, std::int64_t index, std::int64_t n) const {
    constexpr std::int64_t kMost = 4 * 64 / sizeof(E), kLine = 64 / sizeof(E);
    if (index < 0 || index >= limit_) return;
    for (std::int64_t k = 0; k < std::min(n, kMost); k += kLine) {
      __builtin_prefetch(self + index * along_.self + k);
    }
  }

  /// One index after the other: for n positions a `step` apart, those of each operand from where
  /// its pointer stands.
  template <Action action, class E>
  void run_line(E* self, E* values, const std::int64_t* index, std::int64_t n, Axis step, E alpha,
                const char* op) const {
    const std::int64_t limit = limit_, along = along_.self;  // no store can change these
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t place = index[k * step.index];
      if (place < 0 || place >= limit) [[unlikely]]
        checked(place, op);
      move<action, E>(self[place * along + k * step.self], values[k * step.values], alpha);
    }
  }

  template <Action action, class E>
  static void move(E& self, E& value, [[maybe_unused]] E alpha) {
    if constexpr (action == Action::gather) value = self;
    if constexpr (action == Action::scatter) self = value;
    if constexpr (action == Action::scatter_add) self = static_cast<E>(self + alpha * value);
  }

  /// Where an outer position's elements begin.
  struct Place {
    std::int64_t self = 0, values = 0, index = 0;
  };
  Place place_of(std::int64_t unit) const {
    Place place;
    for (std::size_t k = outer_.size(); k-- > 0;) {
      const std::int64_t position = unit % outer_[k].size;
      unit /= outer_[k].size;
      place.self += position * outer_[k].self;
      place.values += position * outer_[k].values;
      place.index += position * outer_[k].index;
    }
    return place;
  }

  /// Entries [first, end) of outer positions [begin, last), which have one column each. Of few
  /// entries, the divisions that find a position would take longer than what is done there.
  template <Action action, class E>
  void run_units(std::int64_t begin, std::int64_t last, std::int64_t first, std::int64_t end,
                 E alpha, const char* op) const {
    const Axis step{0, 0, along_.values, along_.index};
    const Axis inner = outer_.empty() ? Axis{} : outer_.back();
    for (std::int64_t unit = begin; unit < last;) {
      Place place = place_of(unit);
      const std::int64_t run = std::min(last - unit, inner.size - unit % inner.size);
      for (std::int64_t i = 0; i < run; ++i) {
        run_line<action, E>(reinterpret_cast<E*>(self_) + place.self,
                            reinterpret_cast<E*>(values_) + place.values + first * step.values,
                            index_ + place.index + first * step.index, end - first, step, alpha,
                            op);
        place.self += inner.self;
        place.values += inner.values;
        place.index += inner.index;
      }
      unit += run;
    }
  }

  template <Action action, class E>
  void run_piece(std::int64_t unit, std::int64_t column, std::int64_t n, std::int64_t first,
                 std::int64_t end, E alpha, const char* op) const {
    const Place place = place_of(unit);
    E* self = reinterpret_cast<E*>(self_) + place.self + column * columns_.self;
    E* values = reinterpret_cast<E*>(values_) + place.values + column * columns_.values;
    const std::int64_t* index = index_ + place.index + column * columns_.index;
    const bool alike = columns_.index == 0;  // one place for all columns
    if (alike && columns_.self == 1 && columns_.values == 1) {
      return run_rows<action, E>(self, values, index, n, first, end, alpha, op);
    }
    for (std::int64_t j = first; j < end; ++j) {
      const std::int64_t* own = index + j * along_.index;
      E* target = values + j * along_.values;
      if (!alike) {
        run_line<action, E>(self, target, own, n, columns_, alpha, op);
        continue;
      }
      E* row = self + checked(*own, op) * along_.self;
      const std::int64_t from = columns_.self, to = columns_.values;
      for (std::int64_t k = 0; k < n; ++k) move<action, E>(row[k * from], target[k * to], alpha);
    }
  }

  /// Entries whose n columns are neighbours.
  template <Action action, class E>
  void run_rows(E* self, E* values, const std::int64_t* index, std::int64_t n, std::int64_t first,
                std::int64_t end, E alpha, const char* op) const {
    for (std::int64_t j = first; j < end; ++j) {
      const std::int64_t* own = index + j * along_.index;
      E* target = values + j * along_.values;
      if (j + kRowsAhead < end) ask_for(self, own[kRowsAhead * along_.index], n);
      E* row = self + checked(*own, op) * along_.self;
      if (action == Action::gather && n >= kLongRow) {
        std::memcpy(target, row, static_cast<std::size_t>(n) * sizeof(E));
        continue;
      }
      for (std::int64_t k = 0; k < n; ++k) move<action, E>(row[k], target[k], alpha);
    }
  }

  const std::int64_t* index_;
  std::byte* self_;
  std::byte* values_;
  std::int64_t limit_, units_;
  SmallVector<Axis, kMaxDims> outer_;
  Axis along_, columns_;
};

/// Calls `f` with a value of an unsigned integer type as large as an element.
template <class F>
void with_element_size(DType dtype, F f) {
  switch (size_of(dtype)) {
    case 1: return f(std::uint8_t{});
    case 2: return f(std::uint16_t{});
    case 4: return f(std::uint32_t{});
    default: return f(std::uint64_t{});
  }
}

template <class F>
void with_numeric_type(DType dtype, F f) {
  switch (dtype) {
    case kFloat32: return f(float{});
    case kFloat64: return f(double{});
    case kInt32: return f(std::int32_t{});
    case kInt64: return f(std::int64_t{});
    default: return f(std::uint8_t{});
  }
}

/// Strides that repeat a 1-d index over all dimensions but `dim`.
Dims list_strides(const Tensor& index, const Tensor& values, int dim) {
  Dims strides = Dims::filled(values.dim(), 0);
  if (values.dim() > 0 && index.dim() > 0) strides[dim] = index.strides()[0];
  return strides;
}

void run_gather(const Indexed& loop, DType dtype, const char* op) {
  with_element_size(
      dtype, [&](auto element) { loop.run<Action::gather, decltype(element)>(element, op); });
}

void run_add(const Indexed& loop, DType dtype, double alpha, const char* op) {
  with_numeric_type(dtype, [&]<class T>(T) {
    // Through the widest integer, for -1 times bytes to subtract.
    using Exact = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    loop.run<Action::scatter_add, T>(static_cast<T>(static_cast<Exact>(alpha)), op);
  });
}

void gather(const KernelArgs& args) {
  const Tensor& self = args.in(0);
  const Tensor index = args.in(1).to(kInt64);
  const int dim = wrap_dim(args.attrs<ops::gather_attrs>().dim, self.dim(), "gather");
  run_gather({self, args.out(), index, index.strides(), dim}, self.dtype(), "gather");
}

/// Entries that no loop meets, for `moved` has no elements, must be in range, too.
void check_unmet(const Tensor& index, const Tensor& moved, const Tensor& self, int dim,
                 const char* op) {
  if (moved.numel() > 0) return;
  const std::int64_t limit = self.dim() > 0 ? self.sizes()[dim] : 1;
  for (const std::int64_t place : index.to_vector<std::int64_t>()) {
    check<IndexError>(place >= 0 && place < limit,
                      "{}: index {} is out of range for a dimension of size {}", op, place, limit);
  }
}

void index_select(const KernelArgs& args) {
  const Tensor& self = args.in(0);
  const Tensor index = args.in(1).to(kInt64);
  const int dim = wrap_dim(args.attrs<ops::index_select_attrs>().dim, self.dim(), "index_select");
  check_unmet(index, args.out(), self, dim, "index_select");
  const Dims strides = list_strides(index, args.out(), dim);
  run_gather({self, args.out(), index, strides, dim}, self.dtype(), "index_select");
}

/// Begins with the elements of `self`. Where they are there already, nothing may be written before
/// all indices are known to be in range.
void begin_with_self(const KernelArgs& args, const Tensor& index, int dim) {
  const Tensor &self = args.in(0), &out = args.out();
  if (self.impl()->data != out.impl()->data) return copy_elements(self, out);
  const std::int64_t limit = out.dim() > 0 ? out.sizes()[dim] : 1;
  const Tensor dense = index.contiguous();
  const auto* places = dense.impl()->typed<std::int64_t>();
  base::parallel_for(base::divide_up(dense.numel(), kSliceElements), [&](std::int64_t slice) {
    const std::int64_t begin = slice * kSliceElements;
    const std::int64_t end = std::min(begin + kSliceElements, dense.numel());
    bool outside = false;
    for (std::int64_t i = begin; i < end; ++i) outside |= places[i] < 0 || places[i] >= limit;
    // dispatch_over() goes the ordinary way then, which names it.
    check<IndexError>(!outside, "an index is out of range");
  });
}

void scatter(const KernelArgs& args) {
  const Tensor& out = args.out();
  const Tensor index = args.in(1).to(kInt64);
  const int dim = wrap_dim(args.attrs<ops::scatter_attrs>().dim, out.dim(), "scatter");
  begin_with_self(args, index, dim);
  const Indexed loop(out, args.in(2), index, index.strides(), dim);
  with_element_size(out.dtype(), [&](auto element) {
    loop.run<Action::scatter, decltype(element)>(element, "scatter");
  });
}

void scatter_add(const KernelArgs& args) {
  const Tensor& out = args.out();
  const Tensor index = args.in(1).to(kInt64);
  const int dim = wrap_dim(args.attrs<ops::scatter_add_attrs>().dim, out.dim(), "scatter_add");
  begin_with_self(args, index, dim);
  run_add({out, args.in(2), index, index.strides(), dim}, out.dtype(), 1, "scatter_add");
}

void index_add(const KernelArgs& args) {
  const Tensor& out = args.out();
  const auto& a = args.attrs<ops::index_add_attrs>();
  const Tensor index = args.in(1).to(kInt64);
  const int dim = wrap_dim(a.dim, out.dim(), "index_add");
  check_unmet(index, args.in(2), out, dim, "index_add");
  begin_with_self(args, index, dim);
  run_add({out, args.in(2), index, list_strides(index, args.in(2), dim), dim}, out.dtype(), a.alpha,
          "index_add");
}

}  // namespace

void register_indexed() {
  add(OpId::gather, {"loops", nullptr, gather});
  add(OpId::index_select, {"loops", nullptr, index_select});
  add(OpId::scatter, {"loops", nullptr, scatter});
  add(OpId::scatter_add, {"loops", nullptr, scatter_add});
  add(OpId::index_add, {"loops", nullptr, index_add});
}

}  // namespace facula::cpu
