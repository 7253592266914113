#include "backends/cpu/kernels/depthwise_planes.h"

#include "backends/cpu/kernels/simd.h"

namespace facula::cpu::FACULA_ISA {
namespace {

using X = Vec<float>;

/// Lines that are computed together: each line of the image is read once for all of them.
constexpr int kTogether = 4;

/// A vector of each of R lines from `y` on. The weights of smaller kernels stay in registers.
template <int K, int R>
[[gnu::always_inline]] inline void correlate_vectors(const DepthwisePlane& p,
                                                     const X::Raw (&weights)[K][K], std::int64_t y,
                                                     std::int64_t x) {
  X::Raw sums[R];
#pragma GCC unroll 8
  for (int q = 0; q < R; ++q) sums[q] = X::all(p.bias);
  const float* in = p.in + y * p.in_stride + x;
#pragma GCC unroll 16
  for (int row = 0; row < R + K - 1; ++row, in += p.in_stride) {
#pragma GCC unroll 8
    for (int j = 0; j < K; ++j) {
      const X::Raw values = X::load(in + j * p.column_step);
#pragma GCC unroll 8
      for (int q = 0; q < R; ++q) {
        const int i = row - q;
        if (i >= 0 && i < K) sums[q] = X::fma(values, weights[i][j], sums[q]);
      }
    }
  }
  float* out = p.out + y * p.out_stride + x;
  const std::int64_t left = p.width - x;
#pragma GCC unroll 8
  for (int q = 0; q < R; ++q, out += p.out_stride) {
    left >= X::kWidth ? X::store(out, sums[q]) : X::store(out, sums[q], static_cast<int>(left));
  }
}

template <int K>
void correlate_square(const DepthwisePlane& p) {
  X::Raw weights[K][K];
  for (int i = 0; i < K; ++i) {
    for (int j = 0; j < K; ++j) weights[i][j] = X::all(p.weights[i * K + j]);
  }
  std::int64_t y = 0;
  for (; y + kTogether <= p.lines; y += kTogether) {
    for (std::int64_t x = 0; x < p.width; x += X::kWidth) {
      correlate_vectors<K, kTogether>(p, weights, y, x);
    }
  }
  for (; y < p.lines; ++y) {
    for (std::int64_t x = 0; x < p.width; x += X::kWidth) correlate_vectors<K, 1>(p, weights, y, x);
  }
}

void correlate(const DepthwisePlane& p) {
  switch (p.size) {
    case 3: return correlate_square<3>(p);
    case 5: return correlate_square<5>(p);
    default: return correlate_square<7>(p);
  }
}

}  // namespace

extern const DepthwisePlaneLoops depthwise_planes_kernels = {correlate};

}  // namespace facula::cpu::FACULA_ISA
