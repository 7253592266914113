#include "data/resample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "resized_pixels.h"

namespace facula::data {
namespace {

constexpr Interpolation kFilters[] = {Interpolation::bilinear, Interpolation::bicubic};

struct Picture {
  std::int64_t height, width, channels;
  std::vector<std::uint8_t> pixels;

  Picture(std::int64_t h, std::int64_t w, std::int64_t c)
      : height(h), width(w), channels(c), pixels(static_cast<std::size_t>(h * w * c)) {}
  std::uint8_t& at(std::int64_t y, std::int64_t x, std::int64_t c) {
    return pixels[static_cast<std::size_t>((y * width + x) * channels + c)];
  }
  PixelMemory view() const { return {pixels.data(), height, width, channels, width * channels}; }
};

Picture noise(std::int64_t height, std::int64_t width, std::int64_t channels) {
  Picture picture(height, width, channels);
  std::uint64_t state = 7;
  for (auto& x : picture.pixels) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x = static_cast<std::uint8_t>(state >> 56);
  }
  return picture;
}

Picture resized(const Picture& source, std::int64_t height, std::int64_t width,
                Interpolation interpolation) {
  Picture result(height, width, source.channels);
  resize_to(source.view(), height, width, interpolation, {0, 0, height, width},
            result.pixels.data());
  return result;
}

double kernel(Interpolation interpolation, double x) {
  x = std::abs(x);
  if (interpolation == Interpolation::bilinear) return x < 1 ? 1 - x : 0;
  if (x >= 2) return 0;
  return x < 1 ? 1.5 * x * x * x - 2.5 * x * x + 1 : -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2;
}

/// Pillow's definition, in float64: each row is filtered and rounded, then each column.
Picture reference(Picture source, std::int64_t height, std::int64_t width,
                  Interpolation interpolation) {
  const auto pass = [&](Picture from, bool across, std::int64_t size) {
    Picture to = across ? Picture(from.height, size, from.channels)
                        : Picture(size, from.width, from.channels);
    const std::int64_t old_size = across ? from.width : from.height;
    const double scale = static_cast<double>(old_size) / static_cast<double>(size);
    const double widening = std::max(scale, 1.0);
    const double support = (interpolation == Interpolation::bicubic ? 2 : 1) * widening;
    for (std::int64_t i = 0; i < size; ++i) {
      const double center = (static_cast<double>(i) + 0.5) * scale;
      const auto begin =
          std::max<std::int64_t>(static_cast<std::int64_t>(center - support + 0.5), 0);
      const auto end = std::min(static_cast<std::int64_t>(center + support + 0.5), old_size);
      std::vector<double> weights;
      double total = 0;
      for (std::int64_t k = begin; k < end; ++k) {
        weights.push_back(
            kernel(interpolation, (static_cast<double>(k) + 0.5 - center) / widening));
        total += weights.back();
      }
      for (std::int64_t j = 0; j < (across ? from.height : from.width); ++j) {
        for (std::int64_t c = 0; c < from.channels; ++c) {
          double sum = 0;
          for (std::int64_t k = begin; k < end; ++k) {
            const std::uint8_t value = across ? from.at(j, k, c) : from.at(k, j, c);
            sum += weights[static_cast<std::size_t>(k - begin)] / total * value;
          }
          const auto value =
              static_cast<std::uint8_t>(std::clamp(std::floor(sum + 0.5), 0.0, 255.0));
          (across ? to.at(j, i, c) : to.at(i, j, c)) = value;
        }
      }
    }
    return to;
  };
  return pass(pass(std::move(source), true, width), false, height);
}

int largest_difference(const Picture& a, const Picture& b) {
  EXPECT_EQ(a.pixels.size(), b.pixels.size());
  int largest = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) {
    largest = std::max(largest, std::abs(a.pixels[i] - b.pixels[i]));
  }
  return largest;
}

/// Sums that end half-way between two levels may be rounded either way, hence a level.
TEST(Resample, FollowsTheDefinition) {
  const std::int64_t sizes[] = {1, 2, 5, 13, 24, 31, 64, 97};
  for (const std::int64_t channels : {1, 3}) {
    for (const std::int64_t size : sizes) {
      const Picture source = noise(size, 50 - size / 3, channels);
      for (const std::int64_t target : sizes) {
        for (const Interpolation interpolation : kFilters) {
          const std::int64_t width = 98 - target;
          EXPECT_LE(largest_difference(resized(source, target, width, interpolation),
                                       reference(source, target, width, interpolation)),
                    1)
              << source.height << " x " << source.width << " x " << channels << " to " << target
              << " x " << width;
        }
      }
    }
  }
}

TEST(Resample, OneSideAlone) {
  const Picture source = noise(40, 30, 3);
  for (const Interpolation interpolation : kFilters) {
    for (const auto& [height, width] : {std::pair{40, 13}, {40, 71}, {17, 30}, {90, 30}}) {
      EXPECT_LE(largest_difference(resized(source, height, width, interpolation),
                                   reference(source, height, width, interpolation)),
                1);
    }
    EXPECT_EQ(resized(source, 40, 30, interpolation).pixels, source.pixels);
  }
}

TEST(Resample, ManyTapsKeepConstants) {
  Picture source(3000, 2, 3);
  for (const int value : {0, 1, 254, 255}) {
    std::fill(source.pixels.begin(), source.pixels.end(), static_cast<std::uint8_t>(value));
    for (const Interpolation interpolation : kFilters) {
      const Picture result = resized(source, 3, 7, interpolation);
      EXPECT_EQ(std::ranges::count(result.pixels, value), std::ssize(result.pixels));
    }
  }
}

TEST(Resample, AWindowIsAPartOfTheWhole) {
  const Picture source = noise(61, 83, 3);
  for (const Interpolation interpolation :
       {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic}) {
    for (const auto& [height, width] : {std::pair{32, 40}, {100, 150}, {61, 20}, {20, 83}}) {
      Picture whole = resized(source, height, width, interpolation);
      for (const Rect& window : {Rect{0, 0, 1, 1}, Rect{3, 7, 9, 13}, Rect{19, 19, 1, 1},
                                 Rect{height - 5, width - 3, 5, 3}, Rect{0, 2, height, 11}}) {
        Picture part(window.height, window.width, 3);
        resize_to(source.view(), height, width, interpolation, window, part.pixels.data());
        for (std::int64_t y = 0; y < window.height; ++y) {
          ASSERT_EQ(std::memcmp(&part.at(y, 0, 0), &whole.at(window.top + y, window.left, 0),
                                static_cast<std::size_t>(window.width * 3)),
                    0)
              << "row " << y << " of a window at " << window.top << ", " << window.left;
        }
      }
    }
  }
}

TEST(Resample, ReadsNothingBeyondTheSource) {
  // Allocations of their own, so that the sanitizer sees their ends.
  for (std::int64_t width = 1; width < 12; ++width) {
    for (const std::int64_t channels : {1, 3}) {
      const std::int64_t bytes = 5 * width * channels;
      const auto pixels = std::make_unique<std::uint8_t[]>(static_cast<std::size_t>(bytes));
      std::memset(pixels.get(), 255, static_cast<std::size_t>(bytes));
      Picture result(7, 9, channels);
      resize_to(PixelMemory(pixels.get(), 5, width, channels, width * channels), 7, 9,
                Interpolation::bicubic, {0, 0, 7, 9}, result.pixels.data());
      EXPECT_EQ(std::ranges::count(result.pixels, 255), std::ssize(result.pixels));
    }
  }
}

/// Notes which part of it was asked for.
struct Watched : PixelSource {
  PixelMemory memory;
  mutable Rect asked;

  explicit Watched(const Picture& picture) : memory(picture.view()) {
    height = picture.height;
    width = picture.width;
    channels = picture.channels;
  }
  std::unique_ptr<RowReader> rows(const Rect& part) const override {
    asked = part;
    return memory.rows(part);
  }
};

TEST(Resample, AsksForNoMoreThanTheWindowShows) {
  const Picture picture = noise(60, 80, 3);
  const Watched source(picture);
  Picture result(10, 20, 3);
  const auto asked = [&](Interpolation interpolation) {
    // Weights are kept in memory that earlier ones leave behind.
    for (std::int64_t size = 2; size < 12; ++size)
      resized(picture, size, size, Interpolation::bicubic);
    resize_to(source, 30, 40, interpolation, {5, 10, 10, 20}, result.pixels.data());
    return source.asked;
  };
  EXPECT_EQ(asked(Interpolation::nearest), (Rect{11, 21, 19, 39}));
  EXPECT_EQ(asked(Interpolation::bilinear), (Rect{9, 19, 22, 42}));
}

TEST(Resample, RowsMayLieApart) {
  const Picture wide = noise(30, 50, 3);
  Picture dense(30, 20, 3);
  for (std::int64_t y = 0; y < 30; ++y) {
    std::memcpy(&dense.at(y, 0, 0), wide.pixels.data() + (y * 50 + 11) * 3, 20 * 3);
  }
  const PixelMemory view(wide.pixels.data() + 11 * 3, 30, 20, 3, 50 * 3);
  for (const Interpolation interpolation :
       {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic}) {
    Picture result(17, 33, 3);
    resize_to(view, 17, 33, interpolation, {0, 0, 17, 33}, result.pixels.data());
    EXPECT_EQ(result.pixels, resized(dense, 17, 33, interpolation).pixels);
  }
}

TEST(Resample, NearestTakesTheMiddle) {
  Picture source(1, 6, 1);
  for (int x = 0; x < 6; ++x)
    source.pixels[static_cast<std::size_t>(x)] = static_cast<std::uint8_t>(x);
  EXPECT_EQ(resized(source, 1, 3, Interpolation::nearest).pixels,
            (std::vector<std::uint8_t>{1, 3, 5}));
  EXPECT_EQ(resized(source, 1, 2, Interpolation::nearest).pixels,
            (std::vector<std::uint8_t>{1, 4}));
  EXPECT_EQ(resized(source, 1, 12, Interpolation::nearest).pixels,
            (std::vector<std::uint8_t>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}));
}

TEST(Resample, WeightsOfManySizesTakeTurns) {
  const Picture source = noise(40, 40, 1);
  std::vector<std::vector<std::uint8_t>> before;
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t size = 10; size < 30; ++size) {
      const Picture result = resized(source, size, size + 3, Interpolation::bilinear);
      const auto i = static_cast<std::size_t>(size - 10);
      if (round == 0) {
        before.push_back(result.pixels);
      } else {
        EXPECT_EQ(result.pixels, before[i]);
      }
    }
  }
}

}  // namespace
}  // namespace facula::data
