#include "backends/cpu/kernels/cumsum.h"

#include "backends/cpu/kernels/stream_line.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// Elements of a cache line.
template <class T>
constexpr int kLine = kLineBytes / sizeof(T);

/// Rows are too short and too far apart for processors to foresee them.
constexpr std::int64_t kRowsAhead = 4;

template <bool kStream, class T>
void columns_of(const T* __restrict x, std::int64_t x_step, std::int64_t rows, std::int64_t n,
                T* __restrict y, std::int64_t y_step) {
  double sums[kCumsumColumns] = {};
  for (; rows > 0; --rows, x += x_step, y += y_step) {
    std::int64_t k = 0;
    for (; k + kLine<T> <= n; k += kLine<T>) {
      __builtin_prefetch(x + kRowsAhead * x_step + k, 0, 2);
      alignas(kLineBytes) T line[kLine<T>];
#pragma GCC unroll 1  // not before it is vectorised
      for (int i = 0; i < kLine<T>; ++i) {
        sums[k + i] += static_cast<double>(x[k + i]);
        line[i] = static_cast<T>(sums[k + i]);
      }
      if constexpr (kStream) {
        stream_line(y + k, line);
      } else {
        __builtin_memcpy(y + k, line, kLineBytes);
      }
    }
    for (; k < n; ++k) y[k] = static_cast<T>(sums[k] += static_cast<double>(x[k]));
  }
}

template <class T>
void columns(const T* x, std::int64_t x_step, std::int64_t rows, std::int64_t n, T* y,
             std::int64_t y_step, bool stream) {
  stream ? columns_of<true>(x, x_step, rows, n, y, y_step)
         : columns_of<false>(x, x_step, rows, n, y, y_step);
}

}  // namespace

extern const CumsumKernels cumsum_kernels = {{columns<float>}, {columns<double>}};

}  // namespace facula::cpu::FACULA_ISA
