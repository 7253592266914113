// Ops along one dimension: cumsum, argmax, argmin.
#include <algorithm>
#include <type_traits>

#include "backends/cpu/copy.h"
#include "backends/cpu/lines.h"
#include "backends/cpu/reduction.h"
#include "backends/cpu/registration.h"
#include "ops/attrs/argmax.h"
#include "ops/attrs/argmin.h"
#include "ops/attrs/cumsum.h"

namespace facula::cpu {
namespace {

// --- cumsum --------------------------------------------------------------------------------------

void cumsum(const KernelArgs& args) {
  const TensorImpl& self = *args.in(0).impl();
  const TensorImpl& out = *args.out().impl();
  const int dim = wrap_dim(args.attrs<ops::cumsum_attrs>().dim, self.dim, "cumsum");
  const Lines lines(self, out, dim, true);
  with_type(self.dtype, [&](auto element) {
    using T = decltype(element);
    using Sum = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;
    using Out = std::conditional_t<std::is_floating_point_v<T>, T, std::int64_t>;
    lines.for_each([&](std::int64_t from, std::int64_t to, std::int64_t n) {
      const T* x = self.typed<T>() + from;
      Out* y = out.typed<Out>() + to;
      Sum sums[Lines::kMaxLines] = {};
      for (std::int64_t i = 0; i < lines.along.size; ++i) {
        for (std::int64_t k = 0; k < n; ++k) {
          sums[k] += static_cast<Sum>(x[i * lines.along.a + k * lines.columns.a]);
          y[i * lines.along.b + k * lines.columns.b] = static_cast<Out>(sums[k]);
        }
      }
    });
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

/// The position of the extreme element of a line. The vectorised amax or amin loop finds the
/// extreme of a block; only a block that beats the best so far is searched for its place.
template <class T, bool greatest>
std::int64_t extreme(const T* x, std::int64_t n, std::int64_t stride) {
  constexpr std::int64_t kBlock = 4096;
  const OpId id = greatest ? OpId::amax : OpId::amin;
  const ReductionLoops& loops =
      reduction_loops[static_cast<int>(id)][static_cast<int>(dtype_of<T>)];
  const auto bytes = stride * static_cast<std::int64_t>(sizeof(T));
  T best{};
  std::int64_t place = -1;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, n - begin);
    const T* block = x + begin * stride;
    T candidate;
    loops.rows(block, 1, 0, count, bytes, &candidate);
    const bool is_nan = candidate != candidate;
    if (place >= 0 && !is_nan && !(greatest ? candidate > best : candidate < best)) continue;
    best = candidate;
    place = begin + find(block, stride, count, candidate);
    if (is_nan) break;
  }
  return place;
}

/// The same for n neighbouring lines, element by element.
template <class T, bool greatest>
void extremes_of_columns(const T* x, const Lines& lines, std::int64_t n, std::int64_t* places) {
  T best[Lines::kMaxLines];
  for (std::int64_t k = 0; k < n; ++k) {
    best[k] = x[k * lines.columns.a];
    places[k * lines.columns.b] = 0;
  }
  for (std::int64_t i = 1; i < lines.along.size; ++i) {
    for (std::int64_t k = 0; k < n; ++k) {
      const T value = x[i * lines.along.a + k * lines.columns.a];
      const bool better = value != value || (greatest ? value > best[k] : value < best[k]);
      if (!better || best[k] != best[k]) continue;
      best[k] = value;
      places[k * lines.columns.b] = i;
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
    lines.for_each([&](std::int64_t from, std::int64_t to, std::int64_t n) {
      const T* x = impl.typed<T>() + from;
      auto* places = out.impl()->typed<std::int64_t>() + to;
      if (n == 1) {
        *places = extreme<T, greatest>(x, lines.along.size, lines.along.a);
      } else {
        extremes_of_columns<T, greatest>(x, lines, n, places);
      }
    });
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
