#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backends/cpu/kernels/pixels.h"
#include "base/cpu_info.h"

namespace facula::data {
namespace {

struct Isa {
  const char* name;
  const PixelKernels& kernels;
};

/// The kernels of every instruction set that the machine has and the tests may use.
std::vector<Isa> isas() {
#ifdef FACULA_ONE_ISA
  return {{base::to_string(base::cpu_capability()), cpu::pixels_kernels()}};
#else
  std::vector<Isa> list = {{"baseline", cpu::baseline::pixels_kernels}};
  const int capability = static_cast<int>(base::cpu_capability());
  if (capability >= 1) list.push_back({"avx2", cpu::avx2::pixels_kernels});
  if (capability >= 2) list.push_back({"avx512", cpu::avx512::pixels_kernels});
  return list;
#endif
}

/// Repeatable numbers in [0, bound).
class Numbers {
 public:
  int operator()(int bound) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state_ >> 33) % static_cast<unsigned>(bound));
  }
  std::vector<std::uint8_t> bytes(std::int64_t count) {
    std::vector<std::uint8_t> result(static_cast<std::size_t>(count));
    for (auto& x : result) x = static_cast<std::uint8_t>((*this)(256));
    return result;
  }

 private:
  std::uint64_t state_ = 1;
};

std::uint8_t rounded(std::int64_t sum) {
  const std::int64_t value = (sum + (std::int64_t{1} << (kWeightBits - 1))) >> kWeightBits;
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>(value, 0, 255));
}

TEST(PixelKernels, ToFloatRoundsTwice) {
  Numbers numbers;
  for (std::int64_t count = 0; count <= 200; ++count) {
    const auto n = static_cast<std::size_t>(count);
    const std::vector<std::uint8_t> source = numbers.bytes(count);
    std::vector<float> scale(n), shift(n), expected(n);
    for (std::size_t i = 0; i < n; ++i) {
      scale[i] = static_cast<float>(numbers(1000)) / 77.f;
      shift[i] = static_cast<float>(numbers(1000) - 500) / 33.f;
      const volatile float product = static_cast<float>(source[i]) * scale[i];
      expected[i] = product + shift[i];
    }
    for (const Isa& isa : isas()) {
      std::vector<float> result(n + 1, -1.f);
      isa.kernels.to_float(source.data(), scale.data(), shift.data(), count, result.data());
      EXPECT_EQ(result.back(), -1.f) << isa.name << " writes beyond " << count;
      result.pop_back();
      EXPECT_EQ(result, expected) << isa.name << ", " << count << " values";
    }
  }
}

TEST(PixelKernels, MirrorReversesPixels) {
  Numbers numbers;
  for (const std::int64_t channels : {1, 3}) {
    for (std::int64_t pixels = 0; pixels <= 200; ++pixels) {
      const std::vector<std::uint8_t> source = numbers.bytes(pixels * channels);
      std::vector<std::uint8_t> expected;
      for (std::int64_t x = pixels - 1; x >= 0; --x) {
        const auto pixel = source.begin() + x * channels;
        expected.insert(expected.end(), pixel, pixel + channels);
      }
      for (const Isa& isa : isas()) {
        std::vector<std::uint8_t> result(source.size() + 1, 99);
        isa.kernels.mirror(source.data(), pixels, channels, result.data());
        EXPECT_EQ(result.back(), 99) << isa.name << " writes beyond " << pixels;
        result.pop_back();
        EXPECT_EQ(result, expected) << isa.name << ", " << pixels << " of " << channels;
      }
    }
  }
}

/// Weights as of a filter: together about 1, a few of them negative.
std::vector<std::int32_t> filter(Numbers& numbers, std::int64_t taps) {
  std::vector<std::int32_t> weights;
  std::int32_t rest = 1 << kWeightBits;
  for (std::int64_t t = 0; t < taps; ++t) {
    const int share = numbers(1 << 19) - (1 << 17);
    weights.push_back(t + 1 < taps ? share : std::clamp(rest, -(1 << 19), 1 << 22));
    rest -= weights.back();
  }
  return weights;
}

void append(std::vector<WeightPair>& pairs, const std::vector<std::int32_t>& weights) {
  for (std::size_t t = 0; t < weights.size(); ++t) {
    if (t % 2 == 0) pairs.push_back({});
    pairs.back().set(static_cast<int>(t % 2), weights[t]);
  }
}

TEST(PixelKernels, BlendRows) {
  Numbers numbers;
  for (std::int64_t count = 0; count <= 200; ++count) {
    for (const std::int64_t taps : {1, 2, 3, 6, 7}) {
      const std::int64_t stride = count + numbers(9);
      const std::vector<std::uint8_t> rows = numbers.bytes((taps - 1) * stride + count);
      const std::vector<std::int32_t> weights = filter(numbers, taps);
      std::vector<std::uint8_t> expected;
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t sum = 0;
        for (std::int64_t t = 0; t < taps; ++t) {
          sum += std::int64_t{weights[static_cast<std::size_t>(t)]} *
                 rows[static_cast<std::size_t>(t * stride + i)];
        }
        expected.push_back(rounded(sum));
      }
      std::vector<WeightPair> pairs;
      append(pairs, weights);
      for (const Isa& isa : isas()) {
        std::vector<std::uint8_t> result(static_cast<std::size_t>(count) + 1, 99);
        isa.kernels.blend_rows(rows.data(), stride, pairs.data(), taps, count, result.data());
        EXPECT_EQ(result.back(), 99) << isa.name << " writes beyond " << count;
        result.pop_back();
        EXPECT_EQ(result, expected) << isa.name << ": " << count << " bytes, " << taps << " taps";
      }
    }
  }
}

TEST(PixelKernels, BlendPixels) {
  Numbers numbers;
  for (std::int64_t width = 1; width <= 70; ++width) {
    for (const std::int64_t channels : {1, 3}) {
      const std::int64_t taps = 2 * (1 + numbers(6)), height = 1 + numbers(9);
      const std::int64_t source_width = taps + numbers(40);
      const std::int64_t stride = source_width * channels + kBlendSlack;
      const std::int64_t target_stride = width * channels + kBlendSlack;
      const std::vector<std::uint8_t> source = numbers.bytes(height * stride);
      const std::int64_t positions = width + kBlendGroup - 1;
      const bool ascending = numbers(4) > 0;  // as of a filter, or anywhere
      std::int32_t next = 0;
      std::vector<std::int32_t> first(static_cast<std::size_t>(positions));
      std::vector<std::int32_t> weights;
      std::vector<WeightPair> pairs;
      for (auto& position : first) {
        const int most = static_cast<int>(source_width - taps);
        next = std::min(next + numbers(3), most);
        position = ascending ? next : numbers(most + 1);
        const auto one = filter(numbers, taps);
        append(pairs, one);
        weights.insert(weights.end(), one.begin(), one.end());
      }
      const auto expected = [&](std::int64_t y, std::int64_t x, std::int64_t c) {
        std::int64_t sum = 0;
        for (std::int64_t t = 0; t < taps; ++t) {
          const std::int64_t pixel = first[static_cast<std::size_t>(x)] + t;
          sum += std::int64_t{weights[static_cast<std::size_t>(x * taps + t)]} *
                 source[static_cast<std::size_t>(y * stride + pixel * channels + c)];
        }
        return rounded(sum);
      };
      for (const Isa& isa : isas()) {
        std::vector<std::uint8_t> result(static_cast<std::size_t>(height * target_stride));
        isa.kernels.blend_pixels({source.data(), stride, result.data(), target_stride, height,
                                  width, channels, first.data(), pairs.data(), taps / 2});
        std::int64_t wrong = 0;
        for (std::int64_t y = 0; y < height; ++y) {
          for (std::int64_t i = 0; i < width * channels; ++i) {
            wrong += result[static_cast<std::size_t>(y * target_stride + i)] !=
                     expected(y, i / channels, i % channels);
          }
        }
        EXPECT_EQ(wrong, 0) << isa.name << ": " << height << " x " << width << " x " << channels
                            << ", " << taps << " taps";
      }
    }
  }
}

}  // namespace
}  // namespace facula::data
