// The transforms in one dimension of F(4, 3), F(3, 3), F(2, 3), F(4, 2) and F(4, 1), and of their
// transposes F(3, 4), F(3, 3), F(3, 2), F(2, 4) and F(1, 4), which give gradients of weights.
// Included by winograd.cpp only.
//
// Cook and Toom: to multiply polynomials, evaluate both at enough points, multiply the values and
// interpolate. Transposing that algorithm gives one for filtering (S. Winograd, Arithmetic
// Complexity of Computations, 1980); nested in two dimensions it convolves images (A. Lavin and S.
// Gray, Fast Algorithms for Convolutional Neural Networks, 2015): y = A^T [(G g G^T) . (B^T d B)]
// A. For points p_0, p_1, ... and infinity, with M(x) = (x - p_0) (x - p_1) ...:
//   row i of B^T: the coefficients of M(x) / (x - p_i); the last row those of M(x) itself,
//   row i of G:   1, p_i, p_i^2, ... divided by M'(p_i); the last row 0, ..., 0, 1,
//   column i of A^T: 1, p_i, p_i^2, ...; the last column 0, ..., 0, 1.
// Only the numbers of columns of G and of rows of A^T distinguish a filter from its transpose.
#pragma once

#include "backends/cpu/kernels/simd.h"

namespace facula::cpu::FACULA_ISA {
namespace {

#define FACULA_INLINE [[gnu::always_inline]] static inline

/// A transform from or to the values at all of N points; a plain one changes nothing.
template <int N, bool Plain = false>
struct AllPoints {
  static constexpr bool kPlain = Plain;
  static constexpr int kPoints = N;
  static constexpr int point(int i) { return i; }
};

/// Three taps. With the points 0, a, -a, b, -b, M(x) = x (x^2 - a^2) (x^2 - b^2), so
///          0:  a^2 b^2     0    -a^2-b^2      0      1   0
///         +a:     0     -a b^2    -b^2        a      1   0
///   B^T   -a:     0     +a b^2    -b^2       -a      1   0
///         +b:     0     -a^2 b    -a^2        b      1   0
///         -b:     0     +a^2 b    -a^2       -b      1   0
///        inf:     0     a^2 b^2     0     -a^2-b^2   0   1
///   M'(0) = a^2 b^2, M'(+-a) = 2 a^2 (a^2 - b^2), M'(+-b) = 2 b^2 (b^2 - a^2).
/// a = 5/8 and b = 3/2 have less than half the rounding errors of the usual 1 and 2.
struct ThreeTaps {
  using X = Vec<float>;
  using Raw = X::Raw;
  static constexpr float kA = 5.f / 8, kB = 3.f / 2;
  static constexpr float kA2 = kA * kA, kB2 = kB * kB;
  static constexpr float kAtZero = 1 / (kA2 * kB2);           // 1 / M'(0)
  static constexpr float kAtA = 1 / (2 * kA2 * (kA2 - kB2));  // 1 / M'(a)
  static constexpr float kAtB = 1 / (2 * kB2 * (kB2 - kA2));  // 1 / M'(b)

  /// B^T: input pixels.
  struct Input : AllPoints<6> {
    static constexpr int kIn = 6, kOut = 6;
    FACULA_INLINE void apply(const Raw (&d)[kIn], Raw (&out)[kOut]) {
      const Raw product = X::all(kA2 * kB2), sum = X::all(-(kA2 + kB2));
      const Raw minus_a2 = X::all(-kA2), minus_b2 = X::all(-kB2);
      out[0] = X::fma(product, d[0], X::fma(sum, d[2], d[4]));
      const Raw even_a = X::fma(minus_b2, d[2], d[4]);
      const Raw odd_a = X::all(kA) * X::fma(minus_b2, d[1], d[3]);
      out[1] = even_a + odd_a;
      out[2] = even_a - odd_a;
      const Raw even_b = X::fma(minus_a2, d[2], d[4]);
      const Raw odd_b = X::all(kB) * X::fma(minus_a2, d[1], d[3]);
      out[3] = even_b + odd_b;
      out[4] = even_b - odd_b;
      out[5] = X::fma(product, d[1], X::fma(sum, d[3], d[5]));
    }
  };

  /// G for 3 taps: weights.
  struct Weight : AllPoints<6> {
    static constexpr int kIn = 3, kOut = 6;
    FACULA_INLINE void apply(const Raw (&g)[kIn], Raw (&out)[kOut]) {
      out[0] = X::all(kAtZero) * g[0];
      const Raw even_a = X::fma(X::all(kAtA), g[0], X::all(kAtA * kA2) * g[2]);
      const Raw odd_a = X::all(kAtA * kA) * g[1];
      out[1] = even_a + odd_a;
      out[2] = even_a - odd_a;
      const Raw even_b = X::fma(X::all(kAtB), g[0], X::all(kAtB * kB2) * g[2]);
      const Raw odd_b = X::all(kAtB * kB) * g[1];
      out[3] = even_b + odd_b;
      out[4] = even_b - odd_b;
      out[5] = g[2];
    }
  };

  /// G for 4 taps: the gradient of the output, in the gradient of the weights.
  struct Gradient : AllPoints<6> {
    static constexpr int kIn = 4, kOut = 6;
    FACULA_INLINE void apply(const Raw (&g)[kIn], Raw (&out)[kOut]) {
      out[0] = X::all(kAtZero) * g[0];
      const Raw even_a = X::fma(X::all(kAtA), g[0], X::all(kAtA * kA2) * g[2]);
      const Raw odd_a = X::fma(X::all(kAtA * kA), g[1], X::all(kAtA * kA2 * kA) * g[3]);
      out[1] = even_a + odd_a;
      out[2] = even_a - odd_a;
      const Raw even_b = X::fma(X::all(kAtB), g[0], X::all(kAtB * kB2) * g[2]);
      const Raw odd_b = X::fma(X::all(kAtB * kB), g[1], X::all(kAtB * kB2 * kB) * g[3]);
      out[3] = even_b + odd_b;
      out[4] = even_b - odd_b;
      out[5] = g[3];
    }
  };

  /// A^T with 4 rows: pixels of the output.
  struct Output : AllPoints<6> {
    static constexpr int kIn = 6, kOut = 4;
    FACULA_INLINE void apply(const Raw (&m)[kIn], Raw (&out)[kOut]) {
      const Raw even_a = m[1] + m[2], odd_a = m[1] - m[2];
      const Raw even_b = m[3] + m[4], odd_b = m[3] - m[4];
      out[0] = m[0] + even_a + even_b;
      out[1] = X::fma(X::all(kA), odd_a, X::all(kB) * odd_b);
      out[2] = X::fma(X::all(kA2), even_a, X::all(kB2) * even_b);
      out[3] = X::fma(X::all(kA2 * kA), odd_a, X::fma(X::all(kB2 * kB), odd_b, m[5]));
    }
  };

  /// A^T with 3 rows: the gradient of the weights.
  struct WeightGradient : AllPoints<6> {
    static constexpr int kIn = 6, kOut = 3;
    FACULA_INLINE void apply(const Raw (&m)[kIn], Raw (&out)[kOut]) {
      const Raw even_a = m[1] + m[2], odd_a = m[1] - m[2];
      const Raw even_b = m[3] + m[4], odd_b = m[3] - m[4];
      out[0] = m[0] + even_a + even_b;
      out[1] = X::fma(X::all(kA), odd_a, X::all(kB) * odd_b);
      out[2] = X::fma(X::all(kA2), even_a, X::fma(X::all(kB2), even_b, m[5]));
    }
  };
};

/// Three taps and three pixels, at a, -a, b, -b and infinity. Tiles of fewer pixels leave out
/// points of the whole ones, so that the same transformed weights serve. Those are divided by
/// M'(p), where M(x) = R(x) S(x) and S belongs to the points that are left: M'(p) = R(p) S'(p), so
/// the rows of B^T are multiplied by R(p). Here R(x) = x.
struct ThreeTapsThreePixels : ThreeTaps {
  struct SomePoints {
    static constexpr bool kPlain = false;
    static constexpr int kPoints = 6;
    static constexpr int point(int i) { return i + 1; }
  };
  struct Input : SomePoints {
    static constexpr int kIn = 5, kOut = 5;
    FACULA_INLINE void apply(const Raw (&d)[kIn], Raw (&out)[kOut]) {
      const Raw minus_a2 = X::all(-kA2), minus_b2 = X::all(-kB2);
      const Raw odd_a = X::all(kA) * X::fma(minus_b2, d[1], d[3]);
      const Raw even_a = X::all(kA2) * X::fma(minus_b2, d[0], d[2]);
      out[0] = even_a + odd_a;
      out[1] = even_a - odd_a;
      const Raw odd_b = X::all(kB) * X::fma(minus_a2, d[1], d[3]);
      const Raw even_b = X::all(kB2) * X::fma(minus_a2, d[0], d[2]);
      out[2] = even_b + odd_b;
      out[3] = even_b - odd_b;
      out[4] = X::fma(X::all(kA2 * kB2), d[0], X::fma(X::all(-(kA2 + kB2)), d[2], d[4]));
    }
  };
  struct Gradient : SomePoints {
    static constexpr int kIn = 3, kOut = 5;
    FACULA_INLINE void apply(const Raw (&g)[kIn], Raw (&out)[kOut]) {
      Raw at_all[Weight::kOut];
      Weight::apply(g, at_all);
      for (int i = 0; i < kOut; ++i) out[i] = at_all[point(i)];
    }
  };
  struct Output : SomePoints {
    static constexpr int kIn = 5, kOut = 3;
    FACULA_INLINE void apply(const Raw (&m)[kIn], Raw (&out)[kOut]) {
      const Raw even_a = m[0] + m[1], odd_a = m[0] - m[1];
      const Raw even_b = m[2] + m[3], odd_b = m[2] - m[3];
      out[0] = even_a + even_b;
      out[1] = X::fma(X::all(kA), odd_a, X::all(kB) * odd_b);
      out[2] = X::fma(X::all(kA2), even_a, X::fma(X::all(kB2), even_b, m[4]));
    }
  };
};

/// Three taps and two pixels, at 0, a, -a and infinity: R(x) = x^2 - b^2.
struct ThreeTapsTwoPixels : ThreeTaps {
  struct SomePoints {
    static constexpr bool kPlain = false;
    static constexpr int kPoints = 6;
    static constexpr int point(int i) { return i < 3 ? i : 5; }
  };
  struct Input : SomePoints {
    static constexpr int kIn = 4, kOut = 4;
    FACULA_INLINE void apply(const Raw (&d)[kIn], Raw (&out)[kOut]) {
      out[0] = X::fma(X::all(kA2 * kB2), d[0], X::all(-kB2) * d[2]);
      const Raw even = X::all(kA2 - kB2) * d[2], odd = X::all(kA * (kA2 - kB2)) * d[1];
      out[1] = even + odd;
      out[2] = even - odd;
      out[3] = X::fma(X::all(-kA2), d[1], d[3]);
    }
  };
  struct Gradient : SomePoints {
    static constexpr int kIn = 2, kOut = 4;
    FACULA_INLINE void apply(const Raw (&g)[kIn], Raw (&out)[kOut]) {
      out[0] = X::all(kAtZero) * g[0];
      const Raw even = X::all(kAtA) * g[0], odd = X::all(kAtA * kA) * g[1];
      out[1] = even + odd;
      out[2] = even - odd;
      out[3] = g[1];
    }
  };
  struct Output : SomePoints {
    static constexpr int kIn = 4, kOut = 2;
    FACULA_INLINE void apply(const Raw (&m)[kIn], Raw (&out)[kOut]) {
      out[0] = m[0] + (m[1] + m[2]);
      out[1] = X::fma(X::all(kA), m[1] - m[2], m[3]);
    }
  };
};

/// Two taps. With the points a, -a, b, -b, M(x) = (x^2 - a^2) (x^2 - b^2), so
///         +a:   -a b^2     -b^2       a      1   0
///         -a:   +a b^2     -b^2      -a      1   0
///   B^T   +b:   -a^2 b     -a^2       b      1   0
///         -b:   +a^2 b     -a^2      -b      1   0
///        inf:   a^2 b^2     0     -a^2-b^2   0   1
///   M'(+-a) = +-2 a (a^2 - b^2), M'(+-b) = +-2 b (b^2 - a^2).
/// a = 3/8 and b = 5/4 have the smallest rounding errors among multiples of 1/8, little more than
/// half of those of 0, 1, -1, 2.
struct TwoTaps {
  using X = Vec<float>;
  using Raw = X::Raw;
  static constexpr float kA = 3.f / 8, kB = 5.f / 4;
  static constexpr float kA2 = kA * kA, kB2 = kB * kB;
  static constexpr float kAtA = 1 / (2 * kA * (kA2 - kB2));  // 1 / M'(a)
  static constexpr float kAtB = 1 / (2 * kB * (kB2 - kA2));  // 1 / M'(b)

  struct Input : AllPoints<5> {
    static constexpr int kIn = 5, kOut = 5;
    FACULA_INLINE void apply(const Raw (&d)[kIn], Raw (&out)[kOut]) {
      const Raw minus_a2 = X::all(-kA2), minus_b2 = X::all(-kB2);
      const Raw odd_a = X::fma(minus_b2, d[1], d[3]);
      const Raw even_a = X::all(kA) * X::fma(minus_b2, d[0], d[2]);
      out[0] = odd_a + even_a;
      out[1] = odd_a - even_a;
      const Raw odd_b = X::fma(minus_a2, d[1], d[3]);
      const Raw even_b = X::all(kB) * X::fma(minus_a2, d[0], d[2]);
      out[2] = odd_b + even_b;
      out[3] = odd_b - even_b;
      out[4] = X::fma(X::all(kA2 * kB2), d[0], X::fma(X::all(-(kA2 + kB2)), d[2], d[4]));
    }
  };
  struct Weight : AllPoints<5> {
    static constexpr int kIn = 2, kOut = 5;
    FACULA_INLINE void apply(const Raw (&g)[kIn], Raw (&out)[kOut]) {
      const Raw even_a = X::all(kAtA) * g[0], odd_a = X::all(kAtA * kA) * g[1];
      out[0] = odd_a + even_a;
      out[1] = odd_a - even_a;
      const Raw even_b = X::all(kAtB) * g[0], odd_b = X::all(kAtB * kB) * g[1];
      out[2] = odd_b + even_b;
      out[3] = odd_b - even_b;
      out[4] = g[1];
    }
  };
  struct Gradient : AllPoints<5> {
    static constexpr int kIn = 4, kOut = 5;
    FACULA_INLINE void apply(const Raw (&g)[kIn], Raw (&out)[kOut]) {
      const Raw even_a = X::fma(X::all(kAtA), g[0], X::all(kAtA * kA2) * g[2]);
      const Raw odd_a = X::fma(X::all(kAtA * kA), g[1], X::all(kAtA * kA2 * kA) * g[3]);
      out[0] = odd_a + even_a;
      out[1] = odd_a - even_a;
      const Raw even_b = X::fma(X::all(kAtB), g[0], X::all(kAtB * kB2) * g[2]);
      const Raw odd_b = X::fma(X::all(kAtB * kB), g[1], X::all(kAtB * kB2 * kB) * g[3]);
      out[2] = odd_b + even_b;
      out[3] = odd_b - even_b;
      out[4] = g[3];
    }
  };
  struct Output : AllPoints<5> {
    static constexpr int kIn = 5, kOut = 4;
    FACULA_INLINE void apply(const Raw (&m)[kIn], Raw (&out)[kOut]) {
      const Raw even_a = m[0] + m[1], odd_a = m[0] - m[1];
      const Raw even_b = m[2] + m[3], odd_b = m[2] - m[3];
      out[0] = even_a + even_b;
      out[1] = X::fma(X::all(kA), odd_a, X::all(kB) * odd_b);
      out[2] = X::fma(X::all(kA2), even_a, X::all(kB2) * even_b);
      out[3] = X::fma(X::all(kA2 * kA), odd_a, X::fma(X::all(kB2 * kB), odd_b, m[4]));
    }
  };
  struct WeightGradient : AllPoints<5> {
    static constexpr int kIn = 5, kOut = 2;
    FACULA_INLINE void apply(const Raw (&m)[kIn], Raw (&out)[kOut]) {
      out[0] = (m[0] + m[1]) + (m[2] + m[3]);
      out[1] = X::fma(X::all(kA), m[0] - m[1], X::fma(X::all(kB), m[2] - m[3], m[4]));
    }
  };
};

/// One tap: the pixels as they are, all multiplied by the same weight.
struct OneTap {
  template <int N>
  struct Identity : AllPoints<N, true> {
    static constexpr int kIn = N, kOut = N;
    FACULA_INLINE void apply(const Vec<float>::Raw (&in)[N], Vec<float>::Raw (&out)[N]) {
      for (int i = 0; i < N; ++i) out[i] = in[i];
    }
  };
  using Input = Identity<4>;
  using Weight = Identity<1>;
  using Gradient = Identity<4>;
  using Output = Identity<4>;
  using WeightGradient = Identity<1>;
};

#undef FACULA_INLINE

}  // namespace
}  // namespace facula::cpu::FACULA_ISA
