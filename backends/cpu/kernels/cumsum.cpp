#include "backends/cpu/kernels/cumsum.h"

#include "backends/cpu/kernels/ask_ahead.h"
#include "backends/cpu/kernels/many_rows.h"
#include "backends/cpu/kernels/stream_line.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// Rows are too short and too far apart for processors to foresee them.
constexpr std::int64_t kRowsAhead = 4;

template <bool kStream, class T>
void columns_of(const T* __restrict x, std::int64_t x_step, std::int64_t rows, std::int64_t n,
                T* __restrict y, std::int64_t y_step) {
  double sums[kCumsumColumns];
  for (std::int64_t k = 0; k < n; ++k) sums[k] = 0;
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

// A row goes by blocks of kChunks chunks of as many elements, whose sums do not wait for each
// other.

constexpr int kChunks = 8;
constexpr std::int64_t kBlock = kChunks * kChunks;

/// What comes before each chunk of a block with these totals; `before` is what comes before the
/// block, and then before the next.
[[gnu::always_inline]] inline void before_chunks(const double* totals, double& before,
                                                 double* of_chunks) {
  double sum = 0;
#pragma GCC unroll 8
  for (int i = 0; i < kChunks; ++i) {
    of_chunks[i] = sum;
    sum += totals[i];
  }
  for (int i = 0; i < kChunks; ++i) of_chunks[i] += before;
  before += sum;
}

/// How elements come from chunks into lanes and back: by 48 shuffles of vectors of eight or by 20
/// permutations of two vectors of sixteen.
struct Halves {};
#if defined(__AVX512F__)
struct Wholes {};
#else
using Wholes = Halves;
#endif

#if defined(__AVX2__)

#if defined(__AVX512F__)
/// An element of every chunk. Masks keep GCC 12 from warning of what the plain forms leave
/// undefined.
using Lanes = __m512d;
constexpr __mmask8 kAll = 0xff;
[[gnu::always_inline]] inline Lanes load(const double* x) { return _mm512_loadu_pd(x); }
[[gnu::always_inline]] inline void store(Lanes x, double* to) { _mm512_storeu_pd(to, x); }
[[gnu::always_inline]] inline Lanes plus(Lanes sum, __m256 x) {
  return _mm512_add_pd(sum, _mm512_maskz_cvtps_pd(kAll, x));
}
[[gnu::always_inline]] inline __m256 rounded_sum(Lanes x, Lanes y) {
  // The same bits from multipliers: adders share their units with conversions.
  return _mm512_maskz_cvtpd_ps(kAll, _mm512_fmadd_pd(x, _mm512_set1_pd(1), y));
}
#else
struct Lanes {
  __m256d low, high;
};
[[gnu::always_inline]] inline Lanes load(const double* x) {
  return {_mm256_loadu_pd(x), _mm256_loadu_pd(x + 4)};
}
[[gnu::always_inline]] inline void store(Lanes x, double* to) {
  _mm256_storeu_pd(to, x.low);
  _mm256_storeu_pd(to + 4, x.high);
}
[[gnu::always_inline]] inline Lanes plus(Lanes sum, __m256 x) {
  return {_mm256_add_pd(sum.low, _mm256_cvtps_pd(_mm256_castps256_ps128(x))),
          _mm256_add_pd(sum.high, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)))};
}
[[gnu::always_inline]] inline __m256 rounded_sum(Lanes x, Lanes y) {
  const __m256d one = _mm256_set1_pd(1);
  return _mm256_set_m128(_mm256_cvtpd_ps(_mm256_fmadd_pd(x.high, one, y.high)),
                         _mm256_cvtpd_ps(_mm256_fmadd_pd(x.low, one, y.low)));
}
#endif

[[gnu::always_inline]] inline void transpose(__m256 (&x)[kChunks]) {
  __m256 pairs[kChunks], fours[kChunks];
  for (int i = 0; i < kChunks; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
  }
  for (int i = 0; i < kChunks; i += 4) {
    for (int k = 0; k < 2; ++k) {
      fours[i + 2 * k] = _mm256_shuffle_ps(pairs[i + k], pairs[i + k + 2], 0x44);
      fours[i + 2 * k + 1] = _mm256_shuffle_ps(pairs[i + k], pairs[i + k + 2], 0xee);
    }
  }
  for (int i = 0; i < kChunks / 2; ++i) {
    x[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
    x[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
  }
}

/// Element k of every chunk of a block into own[k].
[[gnu::always_inline]] inline void read_across(Halves, const float* x, __m256 (&own)[kChunks]) {
  for (int k = 0; k < kChunks; ++k) own[k] = _mm256_loadu_ps(x + k * kChunks);
  transpose(own);
}

/// The reverse.
template <bool kStream>
[[gnu::always_inline]] inline void write_across(Halves, __m256 (&done)[kChunks], float* y) {
  transpose(done);
  for (int k = 0; k < kChunks; ++k) {
    float* to = y + k * kChunks;
    kStream ? _mm256_stream_ps(to, done[k]) : _mm256_storeu_ps(to, done[k]);
  }
}

#if defined(__AVX512F__)
/// place(i), for i < 16, is where element i comes from: below 16 in the first vector.
template <class Place>
[[gnu::always_inline]] inline __m512 permuted(__m512 x, __m512 y, Place place) {
  alignas(64) std::int32_t places[16];
  for (int i = 0; i < 16; ++i) places[i] = place(i);
  return _mm512_permutex2var_ps(x, _mm512_load_si512(places), y);
}

/// Element k of every chunk of a block into own[k].
[[gnu::always_inline]] inline void read_across(Wholes, const float* x, __m256 (&own)[kChunks]) {
  // Elements 0 to 3 of chunks 0 to 3, then 4 to 7; the same of chunks 4 to 7.
  __m512 fours[4];
  for (int i = 0; i < 4; ++i) {
    const __m512 first = _mm512_loadu_ps(x + i / 2 * 32),
                 second = _mm512_loadu_ps(x + i / 2 * 32 + 16);
    fours[i] = permuted(first, second,
                        [=](int at) FACULA_INLINED { return at % 4 * 8 + at / 4 + i % 2 * 4; });
  }
  // Half a vector of results is read again sooner than it is taken out of a whole one.
  alignas(64) float across[kBlock];
  for (int i = 0; i < 4; ++i) {
    _mm512_storeu_ps(across + i * 16,
                     permuted(fours[i / 2], fours[i / 2 + 2], [=](int at) FACULA_INLINED {
                       return at / 8 * 4 + i % 2 * 8 + at % 8 / 4 * 16 + at % 4;
                     }));
  }
  for (int k = 0; k < kChunks; ++k) own[k] = _mm256_loadu_ps(across + k * kChunks);
}

/// The reverse.
template <bool kStream>
[[gnu::always_inline]] inline void write_across(Wholes, const __m256 (&done)[kChunks], float* y) {
  // Pairs of elements of every chunk, then two of these, then four.
  __m512d pairs[4], fours[4];
  for (int i = 0; i < 4; ++i) {
    pairs[i] = _mm512_castps_pd(
        permuted(_mm512_castps256_ps512(done[2 * i]), _mm512_castps256_ps512(done[2 * i + 1]),
                 [](int at) FACULA_INLINED { return at / 2 + at % 2 * 16; }));
  }
  const auto joined = [](__m512d x, __m512d y, auto place) FACULA_INLINED {
    alignas(64) std::int64_t places[8];
    for (int i = 0; i < 8; ++i) places[i] = place(i);
    return _mm512_permutex2var_pd(x, _mm512_load_si512(places), y);
  };
  for (int i = 0; i < 4; ++i) {
    fours[i] = joined(pairs[i / 2 * 2], pairs[i / 2 * 2 + 1],
                      [=](int at) FACULA_INLINED { return at / 2 + at % 2 * 8 + i % 2 * 4; });
  }
  for (int i = 0; i < 4; ++i) {
    const __m512 line =
        _mm512_castpd_ps(joined(fours[i / 2], fours[i / 2 + 2], [=](int at) FACULA_INLINED {
          return at / 4 * 2 + at % 4 / 2 * 8 + at % 2 + i % 2 * 4;
        }));
    kStream ? _mm512_stream_ps(y + i * 16, line) : _mm512_storeu_ps(y + i * 16, line);
  }
}
#endif

/// Blocks on their way: while one is summed, the sums of the one before are written.
template <class Across, bool kStream>
void blocks(const float* __restrict x, std::int64_t n, float* __restrict y, double& before) {
  constexpr double kZeros[kChunks] = {};
  __m256 own[kChunks], done[kChunks];
  Lanes sums[kChunks], earlier = load(kZeros);
  const auto read = [&](std::int64_t i) FACULA_INLINED {
    for (std::int64_t k = 0; kStream && k < kBlock; k += kLine<float>) ask_both_levels(x + i + k);
    read_across(Across{}, x + i, own);
  };
  for (std::int64_t i = 0; i < n; i += kBlock) {
    read(i);
    Lanes sum = load(kZeros);
    for (int k = 0; k < kChunks; ++k) {
      if (i > 0) done[k] = rounded_sum(sums[k], earlier);
      sums[k] = sum = plus(sum, own[k]);
    }
    double totals[kChunks], of_chunks[kChunks];
    store(sum, totals);
    before_chunks(totals, before, of_chunks);
    earlier = load(of_chunks);
    if (i > 0) write_across<kStream>(Across{}, done, y + i - kBlock);
  }
  for (int k = 0; k < kChunks; ++k) done[k] = rounded_sum(sums[k], earlier);
  write_across<kStream>(Across{}, done, y + n - kBlock);
}

#else

template <class, bool kStream>
void blocks(const float* __restrict x, std::int64_t n, float* __restrict y, double& before) {
  for (std::int64_t i = 0; i < n; i += kBlock) {
    double sums[kChunks][kChunks], totals[kChunks] = {}, of_chunks[kChunks];
    for (int k = 0; k < kChunks; ++k) {
#pragma GCC unroll 8
      for (int c = 0; c < kChunks; ++c) {
        sums[c][k] = totals[c] += static_cast<double>(x[i + c * kChunks + k]);
      }
    }
    before_chunks(totals, before, of_chunks);
    for (int c = 0; c < kChunks; ++c) {
      for (int k = 0; k < kChunks; ++k) {
        y[i + c * kChunks + k] = static_cast<float>(sums[c][k] + of_chunks[c]);
      }
    }
  }
}

#endif

template <class Across, bool kStream>
void row_of(const float* x, std::int64_t n, float* y) {
  double before = 0;
  std::int64_t i = n / kBlock * kBlock;
  if (i > 0) blocks<Across, kStream>(x, i, y, before);
  for (; i < n; ++i) y[i] = static_cast<float>(before += static_cast<double>(x[i]));
}

template <class Across>
void row_by(const float* x, std::int64_t n, float* y, bool stream) {
  stream ? row_of<Across, true>(x, n, y) : row_of<Across, false>(x, n, y);
}

void row(const float* x, std::int64_t n, float* y, bool stream, bool wholes) {
  wholes ? row_by<Wholes>(x, n, y, stream) : row_by<Halves>(x, n, y, stream);
}

}  // namespace

extern const CumsumKernels cumsum_kernels = {{columns<float>}, {columns<double>}, row};

}  // namespace facula::cpu::FACULA_ISA
