#include "data/color.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <facula/data/transforms.h>

#include "data/rotate.h"
#include "tests/support/expect.h"

namespace facula::data {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes rgb(Bytes pixels, void (*adjust)(const Pixels&, double), double factor) {
  adjust({pixels.data(), std::ssize(pixels) / 3, 3}, factor);
  return pixels;
}

TEST(Color, Brightness) {
  const Bytes pixels = {0, 10, 101, 200, 255, 3};
  EXPECT_EQ(rgb(pixels, adjust_brightness, 0), Bytes(6, 0));
  EXPECT_EQ(rgb(pixels, adjust_brightness, 1), pixels);
  EXPECT_EQ(rgb(pixels, adjust_brightness, 0.5), (Bytes{0, 5, 50, 100, 127, 1}));
  EXPECT_EQ(rgb(pixels, adjust_brightness, 2), (Bytes{0, 20, 202, 255, 255, 6}));
}

TEST(Color, Contrast) {
  // Lumas 0, 0 and 255, mean 85.
  const Bytes pixels = {0, 0, 0, 0, 0, 0, 255, 255, 255};
  EXPECT_EQ(rgb(pixels, adjust_contrast, 0), Bytes(9, 85));
  EXPECT_EQ(rgb(pixels, adjust_contrast, 1), pixels);
  EXPECT_EQ(rgb(pixels, adjust_contrast, 0.5), (Bytes{42, 42, 42, 42, 42, 42, 170, 170, 170}));
  Bytes grey = {10, 20, 30};
  adjust_contrast({grey.data(), 3, 1}, 3);
  EXPECT_EQ(grey, (Bytes{0, 20, 50}));
}

TEST(Color, Saturation) {
  const Bytes pixels = {200, 100, 50, 9, 9, 9};
  const std::uint8_t grey = luma(200, 100, 50);
  EXPECT_EQ(grey, 124);
  EXPECT_EQ(rgb(pixels, adjust_saturation, 0), (Bytes{grey, grey, grey, 9, 9, 9}));
  EXPECT_EQ(rgb(pixels, adjust_saturation, 1), pixels);
  EXPECT_EQ(rgb(pixels, adjust_saturation, 2), (Bytes{255, 76, 0, 9, 9, 9}));
  // Longer than a block.
  Bytes many, expected;
  for (int i = 0; i < 1000; ++i) {
    many.insert(many.end(), pixels.begin(), pixels.end());
    expected.insert(expected.end(), {grey, grey, grey, 9, 9, 9});
  }
  EXPECT_EQ(rgb(many, adjust_saturation, 0), expected);
}

TEST(Color, Hue) {
  const Bytes red = {255, 0, 0};
  EXPECT_EQ(rgb(red, adjust_hue, 0), red);
  EXPECT_EQ(rgb(red, adjust_hue, 1.0 / 3), (Bytes{0, 255, 0}));
  // A third of a turn back, and one step too many: 85 below 0 is 171 of 256.
  EXPECT_EQ(rgb(red, adjust_hue, -85.0 / 255), (Bytes{6, 0, 255}));
  EXPECT_EQ(rgb({7, 7, 7, 0, 0, 0}, adjust_hue, 0.4), (Bytes{7, 7, 7, 0, 0, 0}));
}

TEST(Color, GreyImagesHaveNoColour) {
  const Bytes pixels = {1, 100, 255};
  Bytes changed = pixels;
  adjust_hue({changed.data(), 3, 1}, 0.3);
  adjust_saturation({changed.data(), 3, 1}, 3);
  EXPECT_EQ(changed, pixels);
}

Bytes turned(const Bytes& pixels, std::int64_t height, std::int64_t width, double degrees,
             const Rotation::Options& options) {
  const std::int64_t channels = std::ssize(pixels) / (height * width);
  const Rotation rotation(height, width, degrees, options);
  Bytes result(static_cast<std::size_t>(rotation.height() * rotation.width() * channels));
  rotation.run(pixels.data(), channels, result.data());
  return result;
}

constexpr Interpolation kAllInterpolations[] = {Interpolation::nearest, Interpolation::bilinear,
                                                Interpolation::bicubic};

TEST(Rotation, RightAngles) {
  const Bytes pixels = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (const Interpolation interpolation : kAllInterpolations) {
    const auto rotated = [&](double degrees) {
      return turned(pixels, 3, 3, degrees, {.interpolation = interpolation});
    };
    EXPECT_EQ(rotated(0), pixels);
    EXPECT_EQ(rotated(90), (Bytes{3, 6, 9, 2, 5, 8, 1, 4, 7}));
    EXPECT_EQ(rotated(180), (Bytes{9, 8, 7, 6, 5, 4, 3, 2, 1}));
    EXPECT_EQ(rotated(-90), (Bytes{7, 4, 1, 8, 5, 2, 9, 6, 3}));
  }
}

TEST(Rotation, ExpandKeepsAllPixels) {
  const Bytes pixels = {1, 2, 3, 4, 5, 6};
  for (const Interpolation interpolation : kAllInterpolations) {
    const Rotation::Options options = {.interpolation = interpolation, .expand = true};
    const Rotation quarter(2, 3, 450, options);
    EXPECT_EQ(quarter.height(), 3);
    EXPECT_EQ(quarter.width(), 2);
    EXPECT_EQ(turned(pixels, 2, 3, 90, options), (Bytes{3, 6, 2, 5, 1, 4}));
    EXPECT_EQ(turned(pixels, 2, 3, 180, options), (Bytes{6, 5, 4, 3, 2, 1}));
  }
  const Rotation oblique(30, 40, 30, {.expand = true});
  EXPECT_EQ(oblique.height(), 46);  // 30 cos + 40 sin = 45.98
  EXPECT_EQ(oblique.width(), 50);   // 40 cos + 30 sin = 49.64
}

TEST(Rotation, AboutAPoint) {
  // A quarter about the upper left corner carries the upper row beyond the border; about the
  // middle of the first pixel, to the left column.
  const Bytes pixels = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(turned(pixels, 3, 3, -90, {.center = {{0, 0}}}), Bytes(9, 0));
  EXPECT_EQ(turned(pixels, 3, 3, -90, {.center = {{0.5, 0.5}}, .fill = 7}),
            (Bytes{1, 7, 7, 2, 7, 7, 3, 7, 7}));
}

TEST(Rotation, ExpandAboutAPointRoundsAsPillow) {
  // Corners lie a rounding error beside a pixel; sizes are Pillow's.
  struct Case {
    double degrees;
    std::int64_t width, height;
  };
  for (const auto& [degrees, width, height] :
       {Case{-45, 6, 7}, {-120, 7, 6}, {-40.407148169009474, 6, 6}, {268.6120831358958, 6, 5}}) {
    const Rotation rotation(5, 3, degrees, {.expand = true, .center = {{3, 5}}});
    EXPECT_EQ(rotation.width(), width) << degrees;
    EXPECT_EQ(rotation.height(), height) << degrees;
  }
}

TEST(Rotation, BicubicRoundsAsPillow) {
  // Results are Pillow's, where the order of sums decides between two levels.
  EXPECT_EQ(turned({74, 90, 106, 121, 76, 92, 109, 125, 79, 95, 112, 127, 83, 99, 114, 130}, 4, 4,
                   89.99999999, {.interpolation = Interpolation::bicubic}),
            (Bytes{120, 124, 127, 130, 105, 108, 112, 114, 89, 91, 95, 99, 73, 75, 79, 83}));
  EXPECT_EQ(turned({53, 61, 69, 77, 45, 53, 61, 69, 37, 45, 53, 61, 29, 37, 45, 53}, 4, 4, 1e-9,
                   {.interpolation = Interpolation::bicubic}),
            (Bytes{53, 61, 69, 77, 45, 53, 61, 68, 37, 45, 52, 60, 29, 36, 44, 52}));
}

TEST(Rotation, FillsWhatTheSourceLacks) {
  const Bytes pixels(5 * 5 * 3, 200);
  for (const Interpolation interpolation : kAllInterpolations) {
    const Bytes result =
        turned(pixels, 5, 5, 45, {.interpolation = interpolation, .fill = {11, 12, 13}});
    EXPECT_EQ(Bytes(result.begin(), result.begin() + 3), (Bytes{11, 12, 13}));
    EXPECT_EQ(result[12 * 3], 200);
    EXPECT_EQ(turned(Bytes(3, 200), 1, 1, 30, {.interpolation = interpolation, .fill = 11}),
              Bytes(3, 200));
  }
}

Sample gradient() {
  Tensor pixels = empty({3, 8, 8}, kUInt8);
  for (std::int64_t i = 0; i < pixels.numel(); ++i) {
    pixels.data_ptr<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
  }
  return Sample{Image(pixels), std::int64_t{3}};
}

TEST(ColorJitter, IsAFunctionOfTheRandomNumbers) {
  const transforms::ColorJitter jitter(
      {.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1});
  const auto result = [&](std::int64_t sample) {
    Sample changed = gradient();
    Random random(1, 2, sample);
    jitter(changed, random);
    return changed.image().pixels().to_vector<double>();
  };
  EXPECT_EQ(result(5), result(5));
  EXPECT_NE(result(5), result(6));
  EXPECT_NE(result(5), gradient().image().pixels().to_vector<double>());
}

/// Least and greatest level that 1000 draws make of one grey pixel of level 100.
std::pair<int, int> brightened(const transforms::Range& brightness) {
  const transforms::ColorJitter jitter({.brightness = brightness});
  int least = 255, most = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint8_t pixel = 100;
    Sample sample{Image(&pixel, 1, 1, 1)};
    Random random(1, 2, i);
    jitter(sample, random);
    const int value = sample.image().pixels().item<int>();
    least = std::min(least, value);
    most = std::max(most, value);
  }
  return {least, most};
}

TEST(ColorJitter, FactorsCoverTheirRange) {
  const auto expect_near = [](std::pair<int, int> values, int least, int most) {
    EXPECT_NEAR(values.first, least, 1);
    EXPECT_NEAR(values.second, most, 1);
  };
  expect_near(brightened(0.4), 60, 139);
  expect_near(brightened({0.8, 1.5}), 80, 149);
  expect_near(brightened(1.5), 0, 249);  // not below 0
  EXPECT_EQ(brightened({1.2, 1.2}), (std::pair{120, 120}));
  EXPECT_EQ(brightened(0), (std::pair{100, 100}));
}

/// Highest and lowest row to which 500 draws turn a wide mark 40 pixels to the right of the middle
/// of 101x101 pixels.
std::pair<int, int> rows_reached(const transforms::Range& degrees) {
  constexpr int kSide = 101, kMiddle = 50, kReach = 40;
  Bytes pixels(kSide * kSide, 0);
  for (const int x : {-1, 0, 1}) {
    for (const int y : {-1, 0, 1}) pixels[(kMiddle + y) * kSide + kMiddle + kReach + x] = 255;
  }
  int highest = kSide, lowest = 0;
  for (int i = 0; i < 500; ++i) {
    Sample sample{Image(pixels.data(), kSide, kSide, 1)};
    Random random(1, 2, i);
    transforms::RandomRotation({.degrees = degrees})(sample, random);
    const Bytes result = sample.image().pixels().to_vector<std::uint8_t>();
    const auto row = static_cast<int>(std::ranges::find(result, 255) - result.begin()) / kSide;
    highest = std::min(highest, row);
    lowest = std::max(lowest, row);
  }
  return {highest, lowest};
}

TEST(RandomRotation, AnglesCoverTheirRange) {
  // The mark rises with the angle: 40 sin(30) = 20, 40 sin(10) = 7.
  const auto both = rows_reached(30);
  EXPECT_NEAR(both.first, 30, 3);
  EXPECT_NEAR(both.second, 70, 3);
  const auto upwards = rows_reached({-10, 30});
  EXPECT_NEAR(upwards.first, 30, 3);
  EXPECT_NEAR(upwards.second, 57, 3);
}

TEST(RandomRotation, ExpandChangesTheSize) {
  Sample sample = gradient();
  Random random(1, 2, 3);
  transforms::RandomRotation({.degrees = {45, 45}, .expand = true})(sample, random);
  EXPECT_EQ(sample.image().height(), 12);
  EXPECT_EQ(sample.image().width(), 12);
  sample.image().resize(8, 8).to_float();
  EXPECT_EQ(sample.image().tensor().sizes().vec(), (std::vector<std::int64_t>{3, 8, 8}));
}

TEST(ColorJitter, LeavesTheDataSetAlone) {
  Bytes pixels(4 * 4 * 3, 100);
  Sample sample{Image(pixels.data(), 4, 4, 3)};
  Random random(1, 2, 3);
  transforms::ColorJitter({.brightness = 0.9})(sample, random);
  transforms::RandomRotation({.degrees = 40, .fill = 1})(sample, random);
  EXPECT_EQ(pixels, Bytes(4 * 4 * 3, 100));
  EXPECT_NE(sample.image().pixels().to_vector<double>(), std::vector<double>(48, 100));
}

TEST(ColorJitter, Errors) {
  using transforms::ColorJitter, transforms::RandomRotation;
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  EXPECT_ERROR(ValueError, "hue from -0.5 to 0.6, expected values from -0.5 to 0.5",
               ColorJitter({.hue = 0.6}));
  EXPECT_ERROR(ValueError, "hue from -0.7 to 0", ColorJitter({.hue = {-0.7, 0}}));
  EXPECT_ERROR(ValueError, "contrast -1, a single number must not be negative",
               ColorJitter({.contrast = -1}));
  EXPECT_ERROR(ValueError, "brightness from -0.1 to 1", ColorJitter({.brightness = {-0.1, 1}}));
  EXPECT_ERROR(ValueError, "saturation from 1.2 to 0.8, expected a range in ascending order",
               ColorJitter({.saturation = {1.2, 0.8}}));
  EXPECT_ERROR(ValueError, "finite", ColorJitter({.brightness = kInfinite}));
  EXPECT_ERROR(ValueError, "finite", ColorJitter({.hue = {-0.1, std::nan("")}}));
  EXPECT_ERROR(ValueError, "finite", RandomRotation({.degrees = kInfinite}));
  EXPECT_ERROR(ValueError, "finite width", RandomRotation({.degrees = 1e308}));
  EXPECT_ERROR(ValueError, "finite width", RandomRotation({.degrees = {-1e308, 1.7e308}}));
  EXPECT_ERROR(ValueError, "degrees -3, a single number", RandomRotation({.degrees = -3}));
  EXPECT_ERROR(ValueError, "ascending", RandomRotation({.degrees = {30, -10}}));
  EXPECT_ERROR(ValueError, "center", RandomRotation({.degrees = 3, .center = {{0, 1e300}}}));
  EXPECT_ERROR(ValueError, "center", RandomRotation({.degrees = 3, .center = {{0, std::nan("")}}}));
  const Bytes levels(4, 1);
  Sample grey{Image(levels.data(), 2, 2, 1)};
  Random draw(1, 2, 3);
  EXPECT_ERROR(ValueError, "fill has 3 levels",
               RandomRotation({.degrees = 3, .fill = {1, 2, 3}})(grey, draw));
  Sample sample = gradient();
  sample.image().to_float();
  Random random(1, 2, 3);
  EXPECT_ERROR(ValueError, "before ToTensor", ColorJitter({.hue = 0.1})(sample, random));
  EXPECT_ERROR(ValueError, "before ToTensor", transforms::Grayscale()(sample, random));
}

}  // namespace
}  // namespace facula::data
