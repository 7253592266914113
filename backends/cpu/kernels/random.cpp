#include "backends/cpu/kernels/random.h"

#include "core/philox.h"
#include "ops/schema/scalar.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// Blocks computed side by side, so that the compiler can use vectors.
constexpr int kBatch = 64;

struct Words {
  std::uint32_t word[4][kBatch];
};

/// Blocks counter .. counter + kBatch - 1.
[[gnu::always_inline]] inline void fill_batch(std::uint64_t seed, std::uint64_t counter,
                                              Words& out) {
  for (int k = 0; k < kBatch; ++k) {
    const PhiloxBlock block = philox4x32(counter + static_cast<std::uint64_t>(k), 0, seed);
    for (int w = 0; w < 4; ++w) out.word[w][k] = block.word[w];
  }
}

inline float unit(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
inline double unit(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = std::uint64_t{high} << 32 | low;
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

/// Two normal values from two uniform ones; 1 - u lies in (0, 1], so the logarithm is finite.
template <class T>
[[gnu::always_inline]] inline void box_muller(T u, T v, T& a, T& b) {
  // Of such arguments the common ways have the same bits, and compilers vectorise them.
  const T radius = scalar::sqrt(T(-2) * scalar::common_log(T(1) - u));
  const T angle = static_cast<T>(6.283185307179586477) * v;
  a = radius * scalar::common_cos(angle);
  b = radius * scalar::common_sin(angle);
}

/// Converts batches of blocks, each of which yields PerBlock values: convert(words, parts) sets the
/// i-th of block k in parts[i][k].
template <int PerBlock, class T, class Convert>
void fill(std::uint64_t seed, std::uint64_t offset, std::int64_t first, std::int64_t n, T* out,
          Convert convert) {
  constexpr int kValues = kBatch * PerBlock;
  Words words;
  T parts[PerBlock][kBatch], values[kValues];
  for (std::int64_t done = 0; done < n; done += kValues) {
    const auto block = static_cast<std::uint64_t>((first + done) / PerBlock);
    fill_batch(seed, offset + block, words);
    convert(words, parts);
    for (int k = 0; k < kBatch; ++k) {
      for (int i = 0; i < PerBlock; ++i) values[k * PerBlock + i] = parts[i][k];
    }
    const std::int64_t count = n - done < kValues ? n - done : kValues;
    for (std::int64_t i = 0; i < count; ++i) out[done + i] = values[i];
  }
}

void uniform_float(std::uint64_t seed, std::uint64_t offset, std::int64_t first, std::int64_t n,
                   float* out) {
  fill<4>(seed, offset, first, n, out, [](const Words& words, auto& parts) {
    for (int i = 0; i < 4; ++i) {
      for (int k = 0; k < kBatch; ++k) parts[i][k] = unit(words.word[i][k]);
    }
  });
}

void dropout_factors(std::uint64_t seed, std::uint64_t offset, std::int64_t first, std::int64_t n,
                     float p, float scale, float* out) {
  fill<4>(seed, offset, first, n, out, [=](const Words& words, auto& parts) {
    for (int i = 0; i < 4; ++i) {
      for (int k = 0; k < kBatch; ++k) parts[i][k] = unit(words.word[i][k]) >= p ? scale : 0.0f;
    }
  });
}

void uniform_double(std::uint64_t seed, std::uint64_t offset, std::int64_t first, std::int64_t n,
                    double* out) {
  fill<2>(seed, offset, first, n, out, [](const Words& words, auto& parts) {
    for (int i = 0; i < 2; ++i) {
      for (int k = 0; k < kBatch; ++k) {
        parts[i][k] = unit(words.word[2 * i + 1][k], words.word[2 * i][k]);
      }
    }
  });
}

void normal_float(std::uint64_t seed, std::uint64_t offset, std::int64_t first, std::int64_t n,
                  float* out) {
  fill<4>(seed, offset, first, n, out, [](const Words& words, auto& parts) {
    for (int i = 0; i < 4; i += 2) {
      for (int k = 0; k < kBatch; ++k) {
        box_muller(unit(words.word[i][k]), unit(words.word[i + 1][k]), parts[i][k],
                   parts[i + 1][k]);
      }
    }
  });
}

void normal_double(std::uint64_t seed, std::uint64_t offset, std::int64_t first, std::int64_t n,
                   double* out) {
  fill<2>(seed, offset, first, n, out, [](const Words& words, auto& parts) {
    for (int k = 0; k < kBatch; ++k) {
      box_muller(unit(words.word[1][k], words.word[0][k]), unit(words.word[3][k], words.word[2][k]),
                 parts[0][k], parts[1][k]);
    }
  });
}

void bits(std::uint64_t seed, std::uint64_t offset, std::int64_t first, std::int64_t n,
          std::int64_t* out) {
  fill<2>(seed, offset, first, n, out, [](const Words& words, auto& parts) {
    for (int i = 0; i < 2; ++i) {
      for (int k = 0; k < kBatch; ++k) {
        parts[i][k] = static_cast<std::int64_t>(std::uint64_t{words.word[2 * i + 1][k]} << 32 |
                                                words.word[2 * i][k]);
      }
    }
  });
}

}  // namespace

extern const RandomKernels random_kernels = {uniform_float, uniform_double, normal_float,
                                             normal_double, bits,           dropout_factors};

}  // namespace facula::cpu::FACULA_ISA
