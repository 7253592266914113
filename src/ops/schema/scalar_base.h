// Scalars of the op vocabulary, part 1: constants, select, comparison, rounding, fma, bits.
// Ops include ops/schema/scalar.h, which describes the vocabulary.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

// Everything is inlined by force: kernel translation units are compiled for different instruction
// sets, and an out-of-line copy from the AVX-512 one must never be linked into the baseline one.
#if defined(__CUDACC__)
#define FACULA_FN __host__ __device__ __forceinline__
#else
#define FACULA_FN [[gnu::always_inline]] inline
#endif

// a * b + c must round twice everywhere. GCC needs -ffp-contract=off, nvcc -fmad=false.
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
// The vocabulary combines masks with & and |, whatever their operands call.
#pragma clang diagnostic ignored "-Wbitwise-instead-of-logical"
#endif

#if defined(__CUDA_ARCH__) || defined(__aarch64__) || defined(__FMA__)
#define FACULA_HAS_FMA 1
#endif
#if defined(__CUDA_ARCH__) || defined(__SSE4_1__) || !defined(__SSE2__)
#define FACULA_HAS_ROUNDING 1
#endif

namespace facula::scalar {

template <class T>
concept Integer = std::numeric_limits<T>::is_integer;
template <class T>
concept Real = std::numeric_limits<T>::is_iec559;

/// The constant `c` as a T. Integers saturate (NaN gives 0), so that clamp(min=-1) means the same
/// for uint8 as for int64; bool is `c != 0`.
template <class T>
FACULA_FN T K(double c) {
  using Limits = std::numeric_limits<T>;
  if constexpr (Integer<T> && Limits::digits > 1) {
    constexpr T low = Limits::min(), high = Limits::max();
    // Without branches, so that compilers take it out of loops: at most one term is not 0.
    const double least = static_cast<double>(low), most = static_cast<double>(high);
    const bool within = (c > least) & (c < most);
    return static_cast<T>(static_cast<T>(within ? c : 0) + (c >= most) * high + (c <= least) * low);
  }
  return static_cast<T>(c);
}

// Members of numeric_limits are constants of the translation unit, never calls: see FACULA_FN.
template <class T>
FACULA_FN T infinity() {
  constexpr double value = std::numeric_limits<double>::infinity();
  return K<T>(value);
}
template <class T>
FACULA_FN T quiet_nan() {
  constexpr double value = std::numeric_limits<double>::quiet_NaN();
  return K<T>(value);
}

/// `mask ? a : b`. Both sides are always evaluated.
template <class T>
FACULA_FN T select(bool mask, T a, T b) {
  return mask ? a : b;
}

// Bits.
FACULA_FN int32_t as_int(float x) { return __builtin_bit_cast(int32_t, x); }
FACULA_FN int64_t as_int(double x) { return __builtin_bit_cast(int64_t, x); }
FACULA_FN uint32_t as_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
FACULA_FN uint64_t as_bits(double x) { return __builtin_bit_cast(uint64_t, x); }
FACULA_FN float as_float(int32_t bits) { return __builtin_bit_cast(float, bits); }
FACULA_FN float as_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
FACULA_FN double as_float(int64_t bits) { return __builtin_bit_cast(double, bits); }

/// What comparing two of T gives: bool, or a symbolic mask.
template <class T>
using Truth = decltype(std::declval<T>() != std::declval<T>());

// Classification.
template <Real T>
FACULA_FN bool isnan(T x) {
  return x != x;
}
template <Integer T>
FACULA_FN bool isnan(T) {
  return false;
}
/// Whether either is NaN: one instruction, although none says so in C++ with a name that all
/// compilers know.
template <Real T>
FACULA_FN bool isunordered(T a, T b) {
  return !((a <= b) | (a >= b));
}
template <Integer T>
FACULA_FN bool isunordered(T, T) {
  return false;
}
FACULA_FN float abs(float x) { return ::fabsf(x); }
FACULA_FN double abs(double x) { return ::fabs(x); }
/// The most negative integer is its own absolute value.
template <Integer T>
FACULA_FN T abs(T x) {
  if constexpr (!std::numeric_limits<T>::is_signed) return x;
  return x < T(0) ? static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x)) : x;
}
template <Real T>
FACULA_FN bool isinf(T x) {
  return abs(x) == infinity<T>();
}
template <Integer T>
FACULA_FN bool isinf(T) {
  return false;
}

// x86 has one instruction for `a < b ? a : b`, which is b if either is NaN: only NaN of a is left.
/// NaN if either is NaN (like torch.minimum, unlike C's fmin). Of two zeros, the second.
template <Real T>
FACULA_FN T min(T a, T b) {
  const T lesser = a < b ? a : b;
  return a != a ? a : lesser;
}
template <Integer T>
FACULA_FN T min(T a, T b) {
  return a < b ? a : b;
}
/// NaN if either is NaN (like torch.maximum, unlike C's fmax). Of two zeros, the second.
template <Real T>
FACULA_FN T max(T a, T b) {
  const T greater = a > b ? a : b;
  return a != a ? a : greater;
}
template <Integer T>
FACULA_FN T max(T a, T b) {
  return a > b ? a : b;
}

/// -1, 0 or 1; 0 for NaN and for both zeros (like torch.sign).
template <class T>
requires(Real<T> || Integer<T>) FACULA_FN T sign(T x) {
  return select(x > T(0), T(1), select(x < T(0), static_cast<T>(-1), T(0)));
}

/// The magnitude of `x` with the sign bit of `s`.
FACULA_FN float copysign(float x, float s) { return ::copysignf(x, s); }
FACULA_FN double copysign(double x, double s) { return ::copysign(x, s); }

// Rounding to integers: exact functions, so the two implementations agree bit for bit. SSE2 has no
// instruction for them; adding and subtracting 2^23 rounds to nearest, ties to even.
#if defined(FACULA_HAS_ROUNDING)
FACULA_FN float round(float x) { return ::rintf(x); }
FACULA_FN float floor(float x) { return ::floorf(x); }
FACULA_FN float ceil(float x) { return ::ceilf(x); }
FACULA_FN float trunc(float x) { return ::truncf(x); }
#else
FACULA_FN float round(float x) {
  const float magnitude = abs(x);
  const float rounded = (magnitude + 0x1p23f) - 0x1p23f;
  return copysign(select(magnitude < 0x1p23f, rounded, magnitude), x);
}
FACULA_FN float floor(float x) {
  const float nearest = round(x);
  return nearest - select(nearest > x, 1.0f, 0.0f);
}
FACULA_FN float ceil(float x) {
  const float nearest = round(x);
  return copysign(nearest + select(nearest < x, 1.0f, 0.0f), x);
}
FACULA_FN float trunc(float x) { return copysign(floor(abs(x)), x); }
#endif
/// To the nearest integer, ties to even (like torch.round).
FACULA_FN double round(double x) { return ::rint(x); }
FACULA_FN double floor(double x) { return ::floor(x); }
FACULA_FN double ceil(double x) { return ::ceil(x); }
FACULA_FN double trunc(double x) { return ::trunc(x); }
template <Integer T>
FACULA_FN T round(T x) {
  return x;
}
template <Integer T>
FACULA_FN T floor(T x) {
  return x;
}
template <Integer T>
FACULA_FN T ceil(T x) {
  return x;
}
template <Integer T>
FACULA_FN T trunc(T x) {
  return x;
}

FACULA_FN float sqrt(float x) { return ::sqrtf(x); }
FACULA_FN double sqrt(double x) { return ::sqrt(x); }
FACULA_FN float rsqrt(float x) { return 1.0f / ::sqrtf(x); }
FACULA_FN double rsqrt(double x) { return 1.0 / ::sqrt(x); }

/// a * b + c rounded once. Without the instruction, the exact sum is rounded to odd in double
/// (Boldo & Melquiond 2008), after which the rounding to float is as good as a single one: about
/// 2 ns. In integers, because SSE2 compares none of 64 bits.
FACULA_FN float fma(float a, float b, float c) {
#if defined(FACULA_HAS_FMA)
  return ::fmaf(a, b, c);
#else
  const double product = static_cast<double>(a) * b;  // exact
  const double sum = product + c;
  const double part = sum - product;
  const double error = (product - (sum - part)) + (c - part);  // Knuth's TwoSum: exact
  const uint64_t bits = static_cast<uint64_t>(as_int(sum));
  const uint64_t error_bits = static_cast<uint64_t>(as_int(error));
  const uint64_t magnitude = error_bits << 1;
  const uint64_t nonzero = magnitude | (uint64_t{0} - magnitude);
  // NaN, of sums that are infinite or NaN, carries into the bit above the exponent.
  const uint64_t finite = ~(magnitude & ~(magnitude + (uint64_t{1} << 53)));
  const uint64_t inexact = (nonzero & finite) >> 63;
  // An even mantissa moves by one, towards the exact sum.
  const uint64_t step = ~bits & inexact;  // inexact is 0 or 1
  const uint64_t down = uint64_t{0} - ((bits ^ error_bits) >> 63);
  return static_cast<float>(as_float(static_cast<int64_t>(bits + ((step ^ down) - down))));
#endif
}
FACULA_FN double fma(double a, double b, double c) { return ::fma(a, b, c); }
/// c - a * b rounded once.
FACULA_FN float fnma(float a, float b, float c) { return fma(-a, b, c); }
template <Integer T>
FACULA_FN T fma(T a, T b, T c) {
  return static_cast<T>(a * b + c);
}

}  // namespace facula::scalar
