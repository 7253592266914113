// Vectors of the instruction set that a kernel file is being compiled for. For kernels that keep
// tiles in registers, which compilers do not find by themselves; others are plain loops.
//
// Included by kernel translation units only. Products and sums are fused where the instruction set
// can: results of these kernels differ in the last bits between instruction sets.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace facula::cpu::FACULA_ISA {
namespace {

#define FACULA_SIMD [[gnu::always_inline]] static inline

template <class T>
struct Vec;

#if defined(__AVX512F__)
constexpr int kVectorRegisters = 32;

template <>
struct Vec<float> {
  static constexpr int kWidth = 16;
  using Raw = __m512;
  FACULA_SIMD Raw zero() { return _mm512_setzero_ps(); }
  FACULA_SIMD Raw all(float x) { return _mm512_set1_ps(x); }
  FACULA_SIMD Raw load(const float* p) { return _mm512_loadu_ps(p); }
  FACULA_SIMD Raw load(const float* p, int n) {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
  }
  FACULA_SIMD void store(float* p, Raw v) { _mm512_storeu_ps(p, v); }
  FACULA_SIMD void store(float* p, Raw v, int n) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), v);
  }
  /// Past the caches; p must be aligned to the vector.
  FACULA_SIMD void stream(float* p, Raw v) { _mm512_stream_ps(p, v); }
  FACULA_SIMD Raw fma(Raw a, Raw b, Raw c) { return _mm512_fmadd_ps(a, b, c); }
  FACULA_SIMD Raw add(Raw a, Raw b) { return _mm512_add_ps(a, b); }
  /// a > b ? a : b, in every lane.
  FACULA_SIMD Raw max(Raw a, Raw b) {
    return _mm512_maskz_max_ps(static_cast<__mmask16>(-1), a, b);
  }
};
template <>
struct Vec<double> {
  static constexpr int kWidth = 8;
  using Raw = __m512d;
  FACULA_SIMD Raw zero() { return _mm512_setzero_pd(); }
  FACULA_SIMD Raw all(double x) { return _mm512_set1_pd(x); }
  FACULA_SIMD Raw load(const double* p) { return _mm512_loadu_pd(p); }
  FACULA_SIMD Raw load(const double* p, int n) {
    return _mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << n) - 1), p);
  }
  FACULA_SIMD void store(double* p, Raw v) { _mm512_storeu_pd(p, v); }
  FACULA_SIMD void store(double* p, Raw v, int n) {
    _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << n) - 1), v);
  }
  FACULA_SIMD void stream(double* p, Raw v) { _mm512_stream_pd(p, v); }
  FACULA_SIMD Raw fma(Raw a, Raw b, Raw c) { return _mm512_fmadd_pd(a, b, c); }
  FACULA_SIMD Raw add(Raw a, Raw b) { return _mm512_add_pd(a, b); }
  FACULA_SIMD Raw max(Raw a, Raw b) { return _mm512_maskz_max_pd(static_cast<__mmask8>(-1), a, b); }
};
#else
constexpr int kVectorRegisters = 16;

#if defined(__AVX2__)
/// The first n of 8 lanes of 4 bytes.
FACULA_SIMD __m256i first_lanes(int n) {
  alignas(64) static constexpr std::int32_t kMasks[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMasks + 8 - n));
}

/// Writes the first n lanes. Masked stores of AVX2 take AMD's processors many operations.
[[gnu::noinline]] inline void store_lanes(float* p, __m256 v, int n) {
  if (n == 8) return _mm256_storeu_ps(p, v);
  __m128 part = _mm256_castps256_ps128(v);
  if (n & 4) {
    _mm_storeu_ps(p, part);
    p += 4;
    part = _mm256_extractf128_ps(v, 1);
  }
  if (n & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(p), part);
    p += 2;
    part = _mm_movehl_ps(part, part);
  }
  if (n & 1) _mm_store_ss(p, part);
}

template <>
struct Vec<float> {
  static constexpr int kWidth = 8;
  using Raw = __m256;
  FACULA_SIMD Raw zero() { return _mm256_setzero_ps(); }
  FACULA_SIMD Raw all(float x) { return _mm256_set1_ps(x); }
  FACULA_SIMD Raw load(const float* p) { return _mm256_loadu_ps(p); }
  FACULA_SIMD Raw load(const float* p, int n) { return _mm256_maskload_ps(p, first_lanes(n)); }
  FACULA_SIMD void store(float* p, Raw v) { _mm256_storeu_ps(p, v); }
  FACULA_SIMD void store(float* p, Raw v, int n) { store_lanes(p, v, n); }
  FACULA_SIMD void stream(float* p, Raw v) { _mm256_stream_ps(p, v); }
  FACULA_SIMD Raw fma(Raw a, Raw b, Raw c) { return _mm256_fmadd_ps(a, b, c); }
  FACULA_SIMD Raw add(Raw a, Raw b) { return _mm256_add_ps(a, b); }
  FACULA_SIMD Raw max(Raw a, Raw b) { return _mm256_max_ps(a, b); }
};
template <>
struct Vec<double> {
  static constexpr int kWidth = 4;
  using Raw = __m256d;
  FACULA_SIMD Raw zero() { return _mm256_setzero_pd(); }
  FACULA_SIMD Raw all(double x) { return _mm256_set1_pd(x); }
  FACULA_SIMD Raw load(const double* p) { return _mm256_loadu_pd(p); }
  FACULA_SIMD Raw load(const double* p, int n) { return _mm256_maskload_pd(p, first_lanes(2 * n)); }
  FACULA_SIMD void store(double* p, Raw v) { _mm256_storeu_pd(p, v); }
  FACULA_SIMD void store(double* p, Raw v, int n) {
    store_lanes(reinterpret_cast<float*>(p), _mm256_castpd_ps(v), 2 * n);
  }
  FACULA_SIMD void stream(double* p, Raw v) { _mm256_stream_pd(p, v); }
  FACULA_SIMD Raw fma(Raw a, Raw b, Raw c) { return _mm256_fmadd_pd(a, b, c); }
  FACULA_SIMD Raw add(Raw a, Raw b) { return _mm256_add_pd(a, b); }
  FACULA_SIMD Raw max(Raw a, Raw b) { return _mm256_max_pd(a, b); }
};
#else
/// 128 bits, which every 64-bit processor has.
template <class T>
struct Vec {
  static constexpr int kWidth = 16 / sizeof(T);
  typedef T Raw __attribute__((vector_size(16)));
  FACULA_SIMD Raw zero() { return Raw{}; }
  FACULA_SIMD Raw all(T x) { return Raw{} + x; }
  FACULA_SIMD Raw load(const T* p) {
    Raw v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  FACULA_SIMD Raw load(const T* p, int n) {
    T values[kWidth] = {};
    for (int i = 0; i < n; ++i) values[i] = p[i];
    return load(values);
  }
  FACULA_SIMD void store(T* p, Raw v) { __builtin_memcpy(p, &v, sizeof v); }
  FACULA_SIMD void store(T* p, Raw v, int n) {
    for (int i = 0; i < n; ++i) p[i] = v[i];
  }
  FACULA_SIMD void stream(T* p, Raw v) { store(p, v); }
  FACULA_SIMD Raw fma(Raw a, Raw b, Raw c) { return a * b + c; }
  FACULA_SIMD Raw add(Raw a, Raw b) { return a + b; }
  FACULA_SIMD Raw max(Raw a, Raw b) { return a > b ? a : b; }
};
#endif
#endif

#undef FACULA_SIMD

#if defined(__AVX2__)
[[gnu::always_inline]] inline __m128 quarter(__m256 v) {
  return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
}
#if defined(__AVX512F__)
[[gnu::always_inline]] inline __m128 quarter(__m512 v) {
  __m256 halves[2];
  __builtin_memcpy(halves, &v, sizeof v);
  return quarter(_mm256_add_ps(halves[0], halves[1]));
}
#endif
#endif

/// The sums of the lanes of each of n vectors, in a fixed tree.
template <class T, int n>
[[gnu::always_inline]] inline void sum_lanes(const typename Vec<T>::Raw* vectors, T* totals) {
#if defined(__AVX2__)
  if constexpr (sizeof(T) == 4 && n == 4) {
    const __m128 low = _mm_hadd_ps(quarter(vectors[0]), quarter(vectors[1]));
    const __m128 high = _mm_hadd_ps(quarter(vectors[2]), quarter(vectors[3]));
    _mm_storeu_ps(totals, _mm_hadd_ps(low, high));
    return;
  }
#endif
  for (int k = 0; k < n; ++k) {
    T lanes[Vec<T>::kWidth];
    Vec<T>::store(lanes, vectors[k]);
    for (int width = Vec<T>::kWidth / 2; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    }
    totals[k] = lanes[0];
  }
}

#if defined(__AVX512F__)
/// The same bits for four vectors of each of M <= 4 rows, four lanes of the result for a row.
/// Masks keep GCC 12 from warning of what the plain forms leave undefined.
template <int M>
[[gnu::always_inline]] inline __m512 sum_lanes_of_rows(const __m512 (*rows)[4]) {
  constexpr __mmask16 kAll = 0xffff;
#define FACULA_ADD_SHUFFLED(shuffle, a, b, first, second)  \
  _mm512_add_ps(_mm512_maskz_##shuffle(kAll, a, b, first), \
                _mm512_maskz_##shuffle(kAll, a, b, second))
  __m512 quarters[4];  // of the vectors of a row, one after the other
  for (int r = 0; r < M; ++r) {
    const __m512* v = rows[r];
    const __m512 low = FACULA_ADD_SHUFFLED(shuffle_f32x4, v[0], v[1], 0x44, 0xee);
    const __m512 high = FACULA_ADD_SHUFFLED(shuffle_f32x4, v[2], v[3], 0x44, 0xee);
    quarters[r] = FACULA_ADD_SHUFFLED(shuffle_f32x4, low, high, 0x88, 0xdd);
  }
  for (int r = M; r < 4; ++r) quarters[r] = quarters[0];
  const __m512 upper = FACULA_ADD_SHUFFLED(shuffle_ps, quarters[0], quarters[1], 0x88, 0xdd);
  const __m512 lower = FACULA_ADD_SHUFFLED(shuffle_ps, quarters[2], quarters[3], 0x88, 0xdd);
  const __m512 columns = FACULA_ADD_SHUFFLED(shuffle_ps, upper, lower, 0x88, 0xdd);
#undef FACULA_ADD_SHUFFLED
  const __m512i by_rows = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_maskz_permutexvar_ps(kAll, by_rows, columns);
}
#endif

/// The sums of the lanes of each of M x N vectors, with the bits of sum_lanes(). Writes whole
/// vectors: processors read back at once what those wrote, but not what masked stores did.
template <class T, int M, int N>
[[gnu::always_inline]] inline void sum_lanes(const typename Vec<T>::Raw (&vectors)[M][N],
                                             T (&totals)[(M + 3) / 4 * 4][N]) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4 && N == 8 && M <= 2) {
    __m512 fours[2 * M][4];
    __builtin_memcpy(fours, vectors, sizeof fours);
    _mm512_storeu_ps(totals[0], sum_lanes_of_rows<2 * M>(fours));
    return;
  }
  if constexpr (sizeof(T) == 4 && N == 4 && M > 1) {
    constexpr int kRest = M % 4;
    for (int r = 0; r + 4 <= M; r += 4) {
      _mm512_storeu_ps(totals[r], sum_lanes_of_rows<4>(vectors + r));
    }
    if constexpr (kRest > 0) {
      _mm512_storeu_ps(totals[M - kRest], sum_lanes_of_rows<kRest>(vectors + M - kRest));
    }
    return;
  }
#endif
  for (int r = 0; r < M; ++r) {
    constexpr int kTogether = N < 4 ? N : 4;
    for (int s = 0; s < N; s += kTogether) sum_lanes<T, kTogether>(vectors[r] + s, totals[r] + s);
  }
}

/// Before the loop over the steps of a tile. With AVX2 a step has 20 instructions, beside which
/// those of the loop count where threads that share a core take turns in reading instructions.
#if defined(__AVX2__) && !defined(__AVX512F__)
#define FACULA_STEPS_TOGETHER _Pragma("GCC unroll 4")
#else
#define FACULA_STEPS_TOGETHER
#endif

}  // namespace
}  // namespace facula::cpu::FACULA_ISA
