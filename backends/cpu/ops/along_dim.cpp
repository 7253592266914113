// Ops along one dimension: cumsum, argmax, argmin.
#include <algorithm>
#include <type_traits>

#include "backends/cpu/caches.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/kernels/cumsum.h"
#include "backends/cpu/kernels/extremes.h"
#include "backends/cpu/lines.h"
#include "backends/cpu/loops_of.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/streaming.h"
#include "base/cpu_info.h"
#include "base/divide_up.h"
#include "ops/attrs/argmax.h"
#include "ops/attrs/argmin.h"
#include "ops/attrs/cumsum.h"

namespace facula::cpu {
namespace {

// --- cumsum --------------------------------------------------------------------------------------

/// Lines of neighbouring elements that are summed at the same time: an addition waits for the one
/// before it.
constexpr std::int64_t kLinesTogether = 4;
/// Lines beside each other that are too few for loops over them.
constexpr std::int64_t kFewLines = 16;

/// The running sums of n lines, at most `Most`.
template <class Sum, std::int64_t Most, class T, class Out>
[[gnu::always_inline]] inline void sums_of_lines(const Lines& lines, const T* x, Out* y,
                                                 std::int64_t n) {
  const Lines::Axis along = lines.along, next = lines.columns;
  Sum sums[Most];
  for (std::int64_t k = 0; k < n; ++k) sums[k] = 0;
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
  const bool few = lines.along.a == 1 || lines.columns.size < kFewLines;
  const auto run = [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    const T* x = self.typed<T>() + from;
    Out* y = out.typed<Out>() + to;
    if (!few) return sums_of_lines<Sum, Lines::kMaxLines>(lines, x, y, n);
    // Numbers that are known keep sums in registers.
    const Lines::Axis next = lines.columns;
    const auto by = [&]<std::int64_t Count>(std::int64_t k) {
      for (; k + Count <= n; k += Count) {
        sums_of_lines<Sum, Count>(lines, x + k * next.a, y + k * next.b, Count);
      }
      return k;
    };
    const std::int64_t pairs = by.template operator()<kLinesTogether>(0);
    by.template operator()<1>(by.template operator()<2>(pairs));
  };
  // Long lines beside each other share what is read, as far as threads do not share them.
  const std::int64_t beside = std::min<std::int64_t>(
      kLinesTogether, base::divide_up(lines.columns.size, get_num_threads()));
  const std::int64_t most = std::max(lines.along.a == 1 ? 1 : beside, lines.rows_together());
  lines.for_each(run, few ? most : lines.together());
}

/// The same bits for lines that lie beside each other.
template <class T>
void sums_of_columns(const Lines& lines, const TensorImpl& self, const TensorImpl& out) {
  static_assert(Lines::kMaxLines <= kCumsumColumns);
  const Lines::Axis along = lines.along;
  const std::int64_t size = sizeof(T);
  const bool past_caches = worth_streaming(out.numel * size) && along.b * size % kLineBytes == 0;
  const auto run = [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    T* y = out.typed<T>() + to;
    const bool stream = past_caches && begins_line(y);
    loops_of<T>(cumsum_kernels())
        .columns(self.typed<T>() + from, along.a, along.size, n, y, along.b, stream);
    if (stream) finish_streaming();
  };
  lines.for_each(run, lines.together());
}

void sums_of_rows(const Lines& lines, const TensorImpl& self, const TensorImpl& out) {
  const bool past_caches = worth_streaming(out.numel * size_of(out.dtype));
  const bool halves = base::computes_avx512_in_halves();
  const auto run = [&](std::int64_t from, std::int64_t to, std::int64_t) {
    float* y = out.typed<float>() + to;
    const bool stream = past_caches && begins_line(y);
    cumsum_kernels().row(self.typed<float>() + from, lines.along.size, y, stream, !halves);
    if (stream) finish_streaming();
  };
  lines.for_each(run, 1);
}

void cumsum(const KernelArgs& args) {
  const TensorImpl& self = *args.in(0).impl();
  const TensorImpl& out = *args.out().impl();
  const int dim = wrap_dim(args.attrs<ops::cumsum_attrs>().dim, self.dim, "cumsum");
  const Lines lines(self, out, dim, true);
  const Lines::Axis along = lines.along, next = lines.columns;
  const bool columns = along.a != 1 && next.a == 1 && next.b == 1 && next.size >= kFewLines;
  const bool rows = along.a == 1 && along.b == 1 && along.size >= kCumsumLongRow;
  with_type(self.dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (std::is_floating_point_v<T>) {
      if (columns) return sums_of_columns<T>(lines, self, out);
    }
    if constexpr (std::is_same_v<T, float>) {
      if (rows) return sums_of_rows(lines, self, out);
    }
    sums_of_any<T>(lines, self, out);
  });
}

// --- argmax, argmin ------------------------------------------------------------------------------

template <bool greatest, class T>
const ExtremeLoops<T>& extreme_loops() {
  const ExtremeLoopsOf<T>& loops = extreme_kernels();
  return greatest ? loops.greatest : loops.least;
}

/// The position of the extreme element of a row that is the only one, on all threads.
template <bool greatest, class T>
std::int64_t extreme_of_parts(const T* x, std::int64_t n, bool ask) {
  constexpr std::int64_t kPart = 1 << 16;
  const std::int64_t parts = base::divide_up(n, kPart);
  const Scratch<std::int64_t> places(parts);
  base::parallel_for(parts, [&](std::int64_t part) {
    const std::int64_t begin = part * kPart;
    std::int64_t& place = places.data()[part];
    extreme_loops<greatest, T>().rows(x + begin, 0, 1, std::min(kPart, n - begin), &place, 0, ask);
    place += begin;
  });
  // Of equal ones the first stays, and NaN.
  return *std::min_element(places.data(), places.data() + parts, [&](auto one, auto other) {
    const T value = x[one], best = x[other];
    return best == best && (value != value || (greatest ? value > best : value < best));
  });
}

template <bool greatest, class T>
void extremes_of(const Lines& lines, const T* x, std::int64_t* places, bool ask) {
  const ExtremeLoops<T>& loops = extreme_loops<greatest, T>();
  const std::int64_t length = lines.along.size;
  const Lines::Axis next = lines.columns;
  if (lines.along.a == 1 || length == 1) {
    const auto rows = [&](std::int64_t from, std::int64_t to, std::int64_t n) {
      loops.rows(x + from, next.a, n, length, places + to, next.b, ask);
    };
    lines.for_each(rows, lines.rows_together());
  } else {
    const auto columns = [&](std::int64_t from, std::int64_t to, std::int64_t n) {
      loops.columns(x + from, lines.along.a, length, n, places + to, next.b, ask);
    };
    static_assert(Lines::kMaxLines <= kExtremeColumns);
    lines.for_each(columns, lines.together());
  }
}

Tensor dense(const Tensor& input) {
  if (input.is_contiguous()) return input;
  Tensor copy = new_tensor(input.sizes(), input.dtype(), kCPU);
  copy_elements(input, copy);
  return copy;
}

Tensor flattened(const Tensor& input) {
  const Tensor whole = dense(input);
  return alias(*whole.impl(), {input.numel()}, {1}, whole.storage_offset());
}

template <bool greatest>
void extremes(const Tensor& input, std::optional<std::int64_t> dim, bool keepdim,
              const Tensor& out) {
  const Tensor self = dim || input.dim() == 0 ? input : flattened(input);
  const int axis = dim ? wrap_dim(*dim, self.dim(), "argmax") : 0;
  const bool has_dim = dim && keepdim && self.dim() > 0;
  const Lines lines(*self.impl(), *out.impl(), axis, has_dim);
  if (lines.along.a != 1 && lines.columns.a != 1 && !self.is_contiguous()) {
    return extremes<greatest>(dense(self), dim, keepdim, out);
  }
  with_type(self.dtype(), [&](auto element) {
    using Element = decltype(element);
    using T = std::conditional_t<std::is_same_v<Element, bool>, std::uint8_t, Element>;
    const T* x = self.impl()->typed<T>();
    auto* places = out.impl()->typed<std::int64_t>();
    const bool ask = worth_asking(self.nbytes());
    if (out.numel() == 1 && lines.along.a == 1) {
      *places = extreme_of_parts<greatest>(x, lines.along.size, ask);
    } else {
      extremes_of<greatest>(lines, x, places, ask);
    }
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
