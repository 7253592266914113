// Ops along one dimension: cumsum, argmax, argmin.
#include <algorithm>
#include <type_traits>

#include "backends/cpu/copy.h"
#include "backends/cpu/kernels/cumsum.h"
#include "backends/cpu/lines.h"
#include "backends/cpu/loops_of.h"
#include "backends/cpu/reduction.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/streaming.h"
#include "ops/attrs/argmax.h"
#include "ops/attrs/argmin.h"
#include "ops/attrs/cumsum.h"

namespace facula::cpu {
namespace {

// --- cumsum --------------------------------------------------------------------------------------

/// Lines of neighbouring elements that are summed at the same time: an addition waits for the one
/// before it.
constexpr std::int64_t kLinesTogether = 4;

/// The running sums of n lines, at most `Most`.
template <class Sum, std::int64_t Most, class T, class Out>
[[gnu::always_inline]] inline void sums_of_lines(const Lines& lines, const T* x, Out* y,
                                                 std::int64_t n) {
  const Lines::Axis along = lines.along, next = lines.columns;
  Sum sums[Most] = {};
  for (std::int64_t i = 0; i < along.size; ++i) {
    for (std::int64_t k = 0; k < n; ++k) {
      sums[k] += static_cast<Sum>(x[i * along.a + k * next.a]);
      y[i * along.b + k * next.b] = static_cast<Out>(sums[k]);
    }
  }
}

template <class T>
void sums_of_any(const Lines& lines, const TensorImpl& self, const TensorImpl& out) {
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;
  using Out = std::conditional_t<std::is_floating_point_v<T>, T, std::int64_t>;
  const auto run = [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    const T* x = self.typed<T>() + from;
    Out* y = out.typed<Out>() + to;
    if (n == kLinesTogether) {
      sums_of_lines<Sum, kLinesTogether>(lines, x, y, kLinesTogether);
    } else {
      sums_of_lines<Sum, Lines::kMaxLines>(lines, x, y, n);
    }
  };
  lines.for_each(run, lines.along.a == 1 ? kLinesTogether : lines.together());
}

/// The same bits for lines that lie beside each other.
template <class T>
void sums_of_columns(const Lines& lines, const TensorImpl& self, const TensorImpl& out) {
  static_assert(Lines::kMaxLines <= kCumsumColumns);
  constexpr std::int64_t kLineBytes = 64, kSize = sizeof(T);
  const Lines::Axis along = lines.along;
  const bool past_caches = worth_streaming(out.numel * kSize) && along.b * kSize % kLineBytes == 0;
  const auto run = [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    T* y = out.typed<T>() + to;
    const bool stream = past_caches && reinterpret_cast<std::uintptr_t>(y) % kLineBytes == 0;
    loops_of<T>(cumsum_kernels())
        .columns(self.typed<T>() + from, along.a, along.size, n, y, along.b, stream);
    if (stream) finish_streaming();
  };
  lines.for_each(run, lines.together());
}

void cumsum(const KernelArgs& args) {
  const TensorImpl& self = *args.in(0).impl();
  const TensorImpl& out = *args.out().impl();
  const int dim = wrap_dim(args.attrs<ops::cumsum_attrs>().dim, self.dim, "cumsum");
  const Lines lines(self, out, dim, true);
  const bool columns = lines.along.a != 1 && lines.columns.a == 1 && lines.columns.b == 1;
  with_type(self.dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (std::is_floating_point_v<T>) {
      if (columns) return sums_of_columns<T>(lines, self, out);
    }
    sums_of_any<T>(lines, self, out);
  });
}

// --- argmax, argmin ------------------------------------------------------------------------------

/// The first of the elements, one of which is, that equals `value`, or that is NaN.
template <class T>
std::int64_t find(const T* x, std::int64_t stride, std::int64_t n, T value) {
  const bool is_nan = value != value;
  const auto found = [=](T element) { return is_nan ? element != element : element == value; };
  std::int64_t i = 0;
  constexpr std::int64_t kTogether = 64;  // elements compared at once
  for (; stride == 1 && i + kTogether <= n; i += kTogether) {
    int any = 0;
    for (std::int64_t k = 0; k < kTogether; ++k) any |= found(x[i + k]);
    if (any) break;
  }
  while (!found(x[i * stride])) ++i;
  return i;
}

/// Whether `value` takes the place of the best so far: NaN does, and gives it up to nobody.
template <bool greatest, class T>
bool beats(T value, T best) {
  return best == best && (value != value || (greatest ? value > best : value < best));
}

template <class T, bool greatest>
const ReductionLoops& loops_of_extremes() {
  const OpId id = greatest ? OpId::amax : OpId::amin;
  return reduction_loops[static_cast<int>(id)][static_cast<int>(dtype_of<T>)];
}

/// The position of the extreme element of a line. The vectorised amax or amin loop finds the
/// extreme of a block; only a block that beats the best so far is searched for its place.
template <class T, bool greatest>
std::int64_t extreme(const T* x, std::int64_t n, std::int64_t stride) {
  constexpr std::int64_t kBlock = 4096;
  const ReductionLoops& loops = loops_of_extremes<T, greatest>();
  const auto bytes = stride * static_cast<std::int64_t>(sizeof(T));
  T best{};
  std::int64_t place = -1;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, n - begin);
    const T* block = x + begin * stride;
    T candidate;
    loops.rows(block, 1, 0, count, bytes, &candidate);
    if (place >= 0 && !beats<greatest>(candidate, best)) continue;
    best = candidate;
    place = begin + find(block, stride, count, candidate);
    if (candidate != candidate) break;
  }
  return place;
}

/// The same on all threads, of a line that is the only one.
template <class T, bool greatest>
std::int64_t extreme_of_parts(const T* x, std::int64_t n, std::int64_t stride) {
  constexpr std::int64_t kPart = 1 << 16;
  const std::int64_t parts = (n + kPart - 1) / kPart;
  const Scratch<std::int64_t> places(parts);
  base::parallel_for(parts, [&](std::int64_t part) {
    const std::int64_t begin = part * kPart;
    places.data()[part] =
        begin + extreme<T, greatest>(x + begin * stride, std::min(kPart, n - begin), stride);
  });
  return *std::min_element(places.data(), places.data() + parts, [&](auto one, auto other) {
    return beats<greatest>(x[one * stride], x[other * stride]);
  });
}

/// The same for n neighbouring lines, by blocks of rows that stay in the second-level cache.
template <class T, bool greatest>
void extremes_of_columns(const T* x, const Lines& lines, std::int64_t n, std::int64_t* places) {
  const ReductionLoops& loops = loops_of_extremes<T, greatest>();
  const auto bytes = lines.along.a * static_cast<std::int64_t>(sizeof(T));
  constexpr std::int64_t kBlockElements = 16384;
  const std::int64_t rows = kBlockElements / n;
  T best[Lines::kMaxLines], candidates[Lines::kMaxLines];
  for (std::int64_t begin = 0; begin < lines.along.size; begin += rows) {
    const std::int64_t count = std::min(rows, lines.along.size - begin);
    const T* block = x + begin * lines.along.a;
    loops.columns(block, count, bytes, n, candidates);
    for (std::int64_t k = 0; k < n; ++k) {
      if (begin > 0 && !beats<greatest>(candidates[k], best[k])) continue;
      best[k] = candidates[k];
      places[k * lines.columns.b] = begin + find(block + k, lines.along.a, count, best[k]);
    }
  }
}

Tensor flattened(const Tensor& input) {
  Tensor dense = input;
  if (!input.is_contiguous()) {
    dense = new_tensor(input.sizes(), input.dtype(), kCPU);
    copy_elements(input, dense);
  }
  return alias(*dense.impl(), {input.numel()}, {1}, dense.storage_offset());
}

template <bool greatest>
void extremes(const Tensor& input, std::optional<std::int64_t> dim, bool keepdim,
              const Tensor& out) {
  const Tensor self = dim || input.dim() == 0 ? input : flattened(input);
  const TensorImpl& impl = *self.impl();
  const int axis = dim ? wrap_dim(*dim, impl.dim, "argmax") : 0;
  const bool has_dim = dim && keepdim && impl.dim > 0;
  const Lines lines(impl, *out.impl(), axis, has_dim);
  with_type(impl.dtype, [&](auto element) {
    using T = decltype(element);
    const auto search = [&](std::int64_t from, std::int64_t to, std::int64_t n) {
      const T* x = impl.typed<T>() + from;
      auto* places = out.impl()->typed<std::int64_t>() + to;
      if (out.numel() == 1) {
        *places = extreme_of_parts<T, greatest>(x, lines.along.size, lines.along.a);
      } else if (lines.columns.a != 1) {
        for (std::int64_t k = 0; k < n; ++k) {
          places[k * lines.columns.b] =
              extreme<T, greatest>(x + k * lines.columns.a, lines.along.size, lines.along.a);
        }
      } else {
        extremes_of_columns<T, greatest>(x, lines, n, places);
      }
    };
    lines.for_each(search, lines.together());
  });
}

void argmax(const KernelArgs& args) {
  const auto& a = args.attrs<ops::argmax_attrs>();
  extremes<true>(args.in(0), a.dim, a.keepdim, args.out());
}

void argmin(const KernelArgs& args) {
  const auto& a = args.attrs<ops::argmin_attrs>();
  extremes<false>(args.in(0), a.dim, a.keepdim, args.out());
}

}  // namespace

void register_along_dim() {
  add(OpId::cumsum, {"lines", nullptr, cumsum});
  add(OpId::argmax, {"lines", nullptr, argmax});
  add(OpId::argmin, {"lines", nullptr, argmin});
}

}  // namespace facula::cpu
