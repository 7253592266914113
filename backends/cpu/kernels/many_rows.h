// Going over columns several rows at a time. Included by kernel translation units only.
#pragma once

#include <cstdint>

namespace facula::cpu::FACULA_ISA {
namespace {

/// Elements of a cache line.
template <class T>
constexpr std::int64_t kLine = 64 / sizeof(T);

/// Calls add_line<R>(first, k) for every cache line of columns, those from k on, of groups of R
/// rows, kGroup or one, `stride` elements apart, of which the first begins at `first`, and
/// add<R>(first, k) for the columns k that are left. Rows that come kAhead later are asked for into
/// the second-level cache: where rows begin at multiples of a power of two, there is no room in the
/// first for lines of more.
template <int kGroup, int kAhead, class T, class AddLine, class Add>
[[gnu::always_inline]] inline void for_many_lines(const T* x, std::int64_t rows, std::int64_t n,
                                                  std::int64_t stride, AddLine add_line, Add add) {
  for (; rows >= kGroup; rows -= kGroup, x += kGroup * stride) {
    std::int64_t k = 0;
    for (; k + kLine<T> <= n; k += kLine<T>) {
      for (std::int64_t r = kAhead; r < kAhead + kGroup; ++r) {
        __builtin_prefetch(x + r * stride + k, 0, 2);
      }
      add_line.template operator()<kGroup>(x, k);
    }
    for (; k < n; ++k) add.template operator()<kGroup>(x, k);
  }
  for (; rows > 0; --rows, x += stride) {
    for (std::int64_t k = 0; k < n; ++k) add.template operator()<1>(x, k);
  }
}

/// The same column by column.
template <int kGroup, int kAhead, class T, class Add>
[[gnu::always_inline]] inline void for_many_rows(const T* x, std::int64_t rows, std::int64_t n,
                                                 std::int64_t stride, Add add) {
  const auto add_line = [=]<int R>(const T* first, std::int64_t k) FACULA_INLINED {
#pragma GCC unroll 1  // not before it is vectorised
    for (std::int64_t i = k; i < k + kLine<T>; ++i) add.template operator()<R>(first, i);
  };
  for_many_lines<kGroup, kAhead>(x, rows, n, stride, add_line, add);
}

}  // namespace
}  // namespace facula::cpu::FACULA_ISA
