// Vectors of bytes with exact results, for the instruction set that a kernel file is compiled for.
// Products of bytes and 16-bit weights are added in pairs to 32-bit sums, which compilers do not
// find by themselves.
#pragma once

#include <cstdint>

#include "data/pixel_kernels.h"

#if defined(__SSE2__)
#include <immintrin.h>

#define FACULA_BYTE_VECTORS
#if defined(__AVX2__)
#define FACULA_BYTE_SHUFFLES
#endif

#define FACULA_SIMD [[gnu::always_inline]] static inline

namespace facula::cpu::FACULA_ISA {
namespace {

FACULA_SIMD __m128i load16(const std::uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
FACULA_SIMD void store16(std::uint8_t* p, __m128i v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v);
}

// Integer instructions of the widest vectors; those that move bytes do so within 128-bit lanes.
#if defined(__AVX512BW__)
using Raw = __m512i;
#define FACULA_WIDE(name) _mm512_##name
#elif defined(__AVX2__)
using Raw = __m256i;
#define FACULA_WIDE(name) _mm256_##name
#else
using Raw = __m128i;
#define FACULA_WIDE(name) _mm_##name
#endif

/// Weighted sums of bytes, one of each half of the weights, in 32 bits: exact modulo 2^32, and so
/// is their sum, which fits.
struct Sums {
  typedef std::int32_t Integers __attribute__((vector_size(sizeof(Raw))));

  Raw high = Raw{}, low = Raw{};

  /// `bytes`: bytes of two taps side by side, each in 16 bits.
  [[gnu::always_inline]] void add(Raw bytes, const data::WeightPair& weights) {
    accumulate(high, bytes, weights.high);
    accumulate(low, bytes, weights.low);
  }
  /// Divided by 2^kWeightBits and rounded.
  [[gnu::always_inline]] Raw result() const {
    const Raw half = FACULA_WIDE(set1_epi32)(1 << (data::kWeightBits - 1));
    const Raw sum = FACULA_WIDE(add_epi32)(
        FACULA_WIDE(add_epi32)(
            reinterpret_cast<Raw>(reinterpret_cast<Integers>(high) << data::WeightPair::kLowBits),
            low),
        half);
    return reinterpret_cast<Raw>(reinterpret_cast<Integers>(sum) >> data::kWeightBits);
  }

 private:
  FACULA_SIMD void accumulate(Raw& sum, Raw bytes, const std::int16_t* weights) {
    std::int32_t pair;
    __builtin_memcpy(&pair, weights, sizeof pair);
    sum =
        FACULA_WIDE(add_epi32)(sum, FACULA_WIDE(madd_epi16)(bytes, FACULA_WIDE(set1_epi32)(pair)));
  }
};

/// Four vectors of results, clamped, as bytes. Within each 128-bit lane they keep their order.
FACULA_SIMD Raw to_bytes(const Sums* sums) {
  return FACULA_WIDE(packus_epi16)(FACULA_WIDE(packs_epi32)(sums[0].result(), sums[1].result()),
                                   FACULA_WIDE(packs_epi32)(sums[2].result(), sums[3].result()));
}

/// Adds sizeof(Raw) bytes of each of two rows to four vectors of sums.
FACULA_SIMD void add_rows(Sums* sums, const std::uint8_t* a, const std::uint8_t* b,
                          const data::WeightPair& weights) {
  Raw x, y;
  __builtin_memcpy(&x, a, sizeof x);
  __builtin_memcpy(&y, b, sizeof y);
  const Raw zero = Raw{};
  const Raw low = FACULA_WIDE(unpacklo_epi8)(x, y), high = FACULA_WIDE(unpackhi_epi8)(x, y);
  sums[0].add(FACULA_WIDE(unpacklo_epi8)(low, zero), weights);
  sums[1].add(FACULA_WIDE(unpackhi_epi8)(low, zero), weights);
  sums[2].add(FACULA_WIDE(unpacklo_epi8)(high, zero), weights);
  sums[3].add(FACULA_WIDE(unpackhi_epi8)(high, zero), weights);
}

#ifdef FACULA_BYTE_SHUFFLES
/// Bytes as floats.
struct Floats {
#if defined(__AVX512BW__)
  static constexpr std::int64_t kWidth = 16;
  using Vector = __m512;
  // Without masks, GCC 12 warns of variables that its intrinsics leave uninitialised on purpose.
  FACULA_SIMD Vector convert(const std::uint8_t* p) {
    const __mmask16 all = 0xffff;
    return _mm512_maskz_cvtepi32_ps(all, _mm512_maskz_cvtepu8_epi32(all, load16(p)));
  }
#else
  static constexpr std::int64_t kWidth = 8;
  using Vector = __m256;
  FACULA_SIMD Vector convert(const std::uint8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
  }
#endif
  FACULA_SIMD Vector load(const float* p) {
    Vector v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  FACULA_SIMD void store(float* p, Vector v) { __builtin_memcpy(p, &v, sizeof v); }
};

/// Sixteen bytes of each of several rows, a row in each 128-bit lane.
struct Lanes {
  static constexpr int kRows = sizeof(Raw) / 16;

  FACULA_SIMD Raw shuffle(Raw v, Raw order) { return FACULA_WIDE(shuffle_epi8)(v, order); }
  // Compilers know these shuffles as insertions and extractions; the intrinsics of GCC 12 for
  // 512 bits warn of variables that are left uninitialised on purpose.
#if defined(__AVX512BW__)
  FACULA_SIMD Raw repeat(__m128i v) {
    return __builtin_shufflevector(v, v, 0, 1, 0, 1, 0, 1, 0, 1);
  }
  FACULA_SIMD Raw load(const std::uint8_t* const* rows, std::int64_t at) {
    return __builtin_shufflevector(join(load16(rows[0] + at), load16(rows[1] + at)),
                                   join(load16(rows[2] + at), load16(rows[3] + at)), 0, 1, 2, 3, 4,
                                   5, 6, 7);
  }
  FACULA_SIMD void store(std::uint8_t* const* rows, std::int64_t at, Raw v) {
    store16(rows[0] + at, __builtin_shufflevector(v, v, 0, 1));
    store16(rows[1] + at, __builtin_shufflevector(v, v, 2, 3));
    store16(rows[2] + at, __builtin_shufflevector(v, v, 4, 5));
    store16(rows[3] + at, __builtin_shufflevector(v, v, 6, 7));
  }
#else
  FACULA_SIMD Raw repeat(__m128i v) { return join(v, v); }
  FACULA_SIMD Raw load(const std::uint8_t* const* rows, std::int64_t at) {
    return join(load16(rows[0] + at), load16(rows[1] + at));
  }
  FACULA_SIMD void store(std::uint8_t* const* rows, std::int64_t at, Raw v) {
    store16(rows[0] + at, __builtin_shufflevector(v, v, 0, 1));
    store16(rows[1] + at, __builtin_shufflevector(v, v, 2, 3));
  }
#endif

 private:
  FACULA_SIMD __m256i join(__m128i low, __m128i high) {
    return __builtin_shufflevector(low, high, 0, 1, 2, 3);
  }
};
#endif

#if defined(__AVX512BW__)
#define FACULA_WORD_SHUFFLES
/// Five RGB pixels of one row, each made of pixels of a window of 32 bytes: shuffles across the
/// whole vector bring two neighbours together, channel by channel.
struct FivePixels {
  static constexpr int kPixels = 5, kWindow = 32, kMaxPairs = 4;

  /// For each of 3 * kPixels sums, which two bytes of the window are joined, 16 bits each, and
  /// their weights.
  struct Plan {
    alignas(64) std::int32_t index[16] = {};
    alignas(64) std::int32_t high[kMaxPairs][16] = {}, low[kMaxPairs][16] = {};
  };

  template <int pairs>
  FACULA_SIMD void blend(const Plan& plan, const std::uint8_t* window, std::uint8_t* to) {
    const Raw index = load(plan.index);
    Sums sums;
    for (int p = 0; p < pairs; ++p) {
      const Raw bytes = shuffle(index, window + 6 * p);
      sums.high = _mm512_add_epi32(sums.high, _mm512_madd_epi16(bytes, load(plan.high[p])));
      sums.low = _mm512_add_epi32(sums.low, _mm512_madd_epi16(bytes, load(plan.low[p])));
    }
    const __mmask16 all = 0xffff;
    const Raw positive = _mm512_maskz_max_epi32(all, sums.result(), Raw{});
    store16(to, _mm512_maskz_cvtusepi32_epi8(all, positive));
  }

 private:
  FACULA_SIMD Raw load(const void* p) {
    Raw v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  FACULA_SIMD Raw shuffle(Raw index, const std::uint8_t* window) {
    const __mmask32 all = 0xffffffff;
    __m256i bytes;
    __builtin_memcpy(&bytes, window, sizeof bytes);
    return _mm512_maskz_permutexvar_epi16(all, index, _mm512_maskz_cvtepu8_epi16(all, bytes));
  }
};
#endif

}  // namespace
}  // namespace facula::cpu::FACULA_ISA

#undef FACULA_SIMD
#undef FACULA_WIDE

#endif
