#include "backends/cpu/kernels/pixels.h"

#include "backends/cpu/kernels/pixel_vectors.h"

namespace facula::cpu::FACULA_ISA {
namespace {

using data::BlendPixels;
using data::kWeightBits;
using data::WeightPair;

void to_float(const std::uint8_t* __restrict source, const float* __restrict scale,
              const float* __restrict shift, std::int64_t count, float* __restrict destination) {
#ifdef FACULA_BYTE_SHUFFLES
  // Rows of small images are short, and compilers would leave much of them to their loop for the
  // rest. The last step overlaps the one before.
  constexpr std::int64_t kStep = Floats::kWidth;
  if (count >= kStep) {
    for (std::int64_t i = 0; i < count; i += kStep) {
      const std::int64_t at = i < count - kStep ? i : count - kStep;
      Floats::store(destination + at, Floats::convert(source + at) * Floats::load(scale + at) +
                                          Floats::load(shift + at));
    }
    return;
  }
#endif
  for (std::int64_t i = 0; i < count; ++i) {
    destination[i] = static_cast<float>(source[i]) * scale[i] + shift[i];
  }
}

void mirror_bytes(const std::uint8_t* source, std::int64_t n, std::uint8_t* destination) {
  if (n < 8) {
    for (std::int64_t i = 0; i < n; ++i) destination[i] = source[n - 1 - i];
    return;
  }
  // The last step overlaps the one before.
  for (std::int64_t i = 0; i < n; i += 8) {
    const std::int64_t at = i < n - 8 ? i : n - 8;
    std::uint64_t bytes;
    __builtin_memcpy(&bytes, source + n - 8 - at, sizeof bytes);
    bytes = __builtin_bswap64(bytes);
    __builtin_memcpy(destination + at, &bytes, sizeof bytes);
  }
}

void mirror_rgb(const std::uint8_t* source, std::int64_t n, std::uint8_t* destination) {
  std::int64_t done = 0;
#ifdef FACULA_BYTE_SHUFFLES
  if (n >= 6) {
    // Five pixels at a time. One byte more is read, in front of them, and one more is written,
    // which the next step overwrites.
    const __m128i reverse = _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
    for (; n - done >= 6; done += 5) {
      const __m128i pixels = load16(source + 3 * (n - done - 5) - 1);
      store16(destination + 3 * done, _mm_shuffle_epi8(pixels, reverse));
    }
    // The first five pixels of the source; the halves overlap by a byte.
    const __m128i last = _mm_setr_epi8(12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2, 15);
    const __m128i pixels = _mm_shuffle_epi8(load16(source), last);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(destination + 3 * n - 15), pixels);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(destination + 3 * n - 8),
                     _mm_srli_si128(pixels, 7));
    return;
  }
#endif
  for (; done < n; ++done) {
    for (int c = 0; c < 3; ++c) destination[3 * done + c] = source[3 * (n - 1 - done) + c];
  }
}

void mirror(const std::uint8_t* source, std::int64_t pixels, std::int64_t channels,
            std::uint8_t* destination) {
  channels == 3 ? mirror_rgb(source, pixels, destination)
                : mirror_bytes(source, pixels, destination);
}

inline std::uint8_t clamp_byte(std::int32_t x) {
  const std::int32_t low = x < 0 ? 0 : x;
  return static_cast<std::uint8_t>(low > 255 ? 255 : low);
}

inline std::int32_t weight(const WeightPair* pairs, std::int64_t t) {
  const WeightPair& pair = pairs[t / 2];
  return pair.high[t % 2] * (1 << WeightPair::kLowBits) + pair.low[t % 2];
}

inline std::uint8_t rounded(std::int32_t sum) {
  return clamp_byte((sum + (1 << (kWeightBits - 1))) >> kWeightBits);
}

void blend_rows(const std::uint8_t* rows, std::int64_t stride, const WeightPair* weights,
                std::int64_t taps, std::int64_t count, std::uint8_t* destination) {
#ifdef FACULA_BYTE_VECTORS
  constexpr std::int64_t kStep = sizeof(Raw);
  if (count >= kStep) {
    // The last step overlaps the one before.
    for (std::int64_t i = 0; i < count; i += kStep) {
      const std::int64_t at = i < count - kStep ? i : count - kStep;
      Sums sums[4];
      for (std::int64_t t = 0; t < taps; t += 2) {
        const std::uint8_t* row = rows + t * stride + at;
        add_rows(sums, row, t + 1 < taps ? row + stride : row, weights[t / 2]);
      }
      const Raw bytes = to_bytes(sums);
      __builtin_memcpy(destination + at, &bytes, sizeof bytes);
    }
    return;
  }
#endif
  for (std::int64_t i = 0; i < count; ++i) {
    std::int32_t sum = 0;
    for (std::int64_t t = 0; t < taps; ++t) sum += weight(weights, t) * rows[t * stride + i];
    destination[i] = rounded(sum);
  }
}

#ifdef FACULA_BYTE_SHUFFLES
/// kGroup pixels of each of Lanes::kRows rows at a time, a row in each 128-bit lane. Shuffles
/// bring two neighbours together, channel by channel, and multiply-add joins them.
void blend_rgb(const BlendPixels& b) {
  constexpr int kGroup = 4;
  static_assert(kGroup <= data::kBlendGroup);
  const Raw pair0 =
      Lanes::repeat(_mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
  const Raw pair1 =
      Lanes::repeat(_mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
  const Raw dense =
      Lanes::repeat(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
  for (std::int64_t y = 0; y < b.height; y += Lanes::kRows) {
    // Beyond the last row, it is done again.
    const std::uint8_t* from[Lanes::kRows];
    std::uint8_t* to[Lanes::kRows];
    for (int r = 0; r < Lanes::kRows; ++r) {
      const std::int64_t row = y + r < b.height ? y + r : b.height - 1;
      from[r] = b.source + row * b.source_stride;
      to[r] = b.destination + row * b.destination_stride;
    }
    for (std::int64_t x = 0; x < b.width; x += kGroup) {
      Sums sums[kGroup];
      const WeightPair* weights = b.weights + x * b.pairs;
      std::int64_t p = 0;
      for (; p + 2 <= b.pairs; p += 2) {
        for (int k = 0; k < kGroup; ++k) {
          const Raw pixels = Lanes::load(from, 3 * (b.first[x + k] + 2 * p));
          sums[k].add(Lanes::shuffle(pixels, pair0), weights[k * b.pairs + p]);
          sums[k].add(Lanes::shuffle(pixels, pair1), weights[k * b.pairs + p + 1]);
        }
      }
      if (p < b.pairs) {
        for (int k = 0; k < kGroup; ++k) {
          const Raw pixels = Lanes::load(from, 3 * (b.first[x + k] + 2 * p));
          sums[k].add(Lanes::shuffle(pixels, pair0), weights[k * b.pairs + p]);
        }
      }
      Lanes::store(to, 3 * x, Lanes::shuffle(to_bytes(sums), dense));
    }
  }
}
#endif

#ifdef FACULA_WORD_SHUFFLES
static_assert(FivePixels::kPixels <= data::kBlendGroup && FivePixels::kWindow <= data::kBlendSlack);

/// Going down all rows before the next five columns, a processor does not foresee what comes from
/// memory: bytes of a row that are asked for ahead of their use.
constexpr std::int64_t kAhead = 128;

template <int pairs>
void blend_windows(const BlendPixels& b) {
  for (std::int64_t x = 0; x < b.width; x += FivePixels::kPixels) {
    FivePixels::Plan plan;
    for (int i = 0; i < 3 * FivePixels::kPixels; ++i) {
      const std::int64_t pixel = x + i / 3;
      const std::int32_t at = 3 * (b.first[pixel] - b.first[x]) + i % 3;
      plan.index[i] = at | (at + 3) << 16;
      for (int p = 0; p < pairs; ++p) {
        const WeightPair& weights = b.weights[pixel * pairs + p];
        __builtin_memcpy(&plan.high[p][i], weights.high, sizeof(std::int32_t));
        __builtin_memcpy(&plan.low[p][i], weights.low, sizeof(std::int32_t));
      }
    }
    const std::uint8_t* from = b.source + 3 * std::int64_t{b.first[x]};
    std::uint8_t* to = b.destination + 3 * x;
    for (std::int64_t y = 0; y < b.height; ++y) {
      __builtin_prefetch(from + y * b.source_stride + kAhead);
      FivePixels::blend<pairs>(plan, from + y * b.source_stride, to + y * b.destination_stride);
    }
  }
}

/// Whether what any five pixels are made of lies close enough together.
bool fits_windows(const BlendPixels& b) {
  bool fits = b.pairs <= FivePixels::kMaxPairs;
  for (std::int64_t x = 0; x < b.width && fits; x += FivePixels::kPixels) {
    for (int i = 1; i < FivePixels::kPixels; ++i) {
      const std::int32_t across = b.first[x + i] - b.first[x];
      fits = fits && across >= 0 && 3 * (across + 2) <= FivePixels::kWindow;
    }
  }
  return fits;
}
#endif

/// Several rows at a time share the weights.
template <int channels>
void blend_plain(const BlendPixels& b) {
  constexpr int kRows = 4;
  for (std::int64_t y = 0; y < b.height; y += kRows) {
    const std::uint8_t* from[kRows];
    std::uint8_t* to[kRows];
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = y + r < b.height ? y + r : b.height - 1;
      from[r] = b.source + row * b.source_stride;
      to[r] = b.destination + row * b.destination_stride;
    }
    for (std::int64_t x = 0; x < b.width; ++x) {
      std::int32_t sums[kRows * channels] = {};
      for (std::int64_t t = 0; t < 2 * b.pairs; ++t) {
        const std::int32_t w = weight(b.weights + x * b.pairs, t);
        const std::int64_t at = channels * (b.first[x] + t);
        for (int i = 0; i < kRows * channels; ++i) {
          sums[i] += w * from[i / channels][at + i % channels];
        }
      }
      for (int i = 0; i < kRows * channels; ++i) {
        to[i / channels][channels * x + i % channels] = rounded(sums[i]);
      }
    }
  }
}

void blend_pixels(const BlendPixels& blend) {
#ifdef FACULA_WORD_SHUFFLES
  constexpr decltype(&blend_rgb) kByPairs[] = {blend_windows<1>, blend_windows<2>, blend_windows<3>,
                                               blend_windows<4>};
  if (blend.channels == 3 && fits_windows(blend)) return kByPairs[blend.pairs - 1](blend);
#endif
#ifdef FACULA_BYTE_SHUFFLES
  blend.channels == 3 ? blend_rgb(blend) : blend_plain<1>(blend);
#else
  blend.channels == 3 ? blend_plain<3>(blend) : blend_plain<1>(blend);
#endif
}

}  // namespace

extern const data::PixelKernels pixels_kernels = {to_float, mirror, blend_rows, blend_pixels};

}  // namespace facula::cpu::FACULA_ISA
