#include "data/color.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
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

TEST(Rotate, RightAngles) {
  const Bytes pixels = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (const Interpolation interpolation : {Interpolation::nearest, Interpolation::bilinear}) {
    const auto rotated = [&](double degrees) {
      Bytes result(9);
      rotate(pixels.data(), 3, 3, 1, degrees, interpolation, 0, result.data());
      return result;
    };
    EXPECT_EQ(rotated(0), pixels);
    EXPECT_EQ(rotated(90), (Bytes{3, 6, 9, 2, 5, 8, 1, 4, 7}));
    EXPECT_EQ(rotated(180), (Bytes{9, 8, 7, 6, 5, 4, 3, 2, 1}));
    EXPECT_EQ(rotated(-90), (Bytes{7, 4, 1, 8, 5, 2, 9, 6, 3}));
  }
}

TEST(Rotate, FillsWhatTheSourceLacks) {
  const Bytes pixels(5 * 5 * 3, 200);
  Bytes result(pixels.size());
  rotate(pixels.data(), 5, 5, 3, 45, Interpolation::bilinear, 11, result.data());
  EXPECT_EQ(result[0], 11);
  EXPECT_EQ(result[12 * 3], 200);
  Bytes one(3, 0);
  rotate(pixels.data(), 1, 1, 3, 30, Interpolation::bilinear, 11, one.data());
  EXPECT_EQ(one, Bytes(3, 200));
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

TEST(ColorJitter, FactorsCoverTheirRange) {
  int least = 255, most = 0, sum = 0;
  constexpr int kDraws = 1000;
  for (int i = 0; i < kDraws; ++i) {
    const std::uint8_t pixel = 100;
    Sample sample{Image(&pixel, 1, 1, 1)};
    Random random(1, 2, i);
    transforms::ColorJitter({.brightness = 0.4})(sample, random);
    const int value = sample.image().pixels().item<int>();
    least = std::min(least, value);
    most = std::max(most, value);
    sum += value;
  }
  EXPECT_GE(least, 60);
  EXPECT_LE(least, 61);
  EXPECT_GE(most, 138);
  EXPECT_LE(most, 140);
  EXPECT_NEAR(sum / kDraws, 100, 4);
}

TEST(RandomRotation, AnglesCoverTheirRange) {
  // A wide mark to the right of the middle rises with the angle.
  constexpr int kSide = 101, kMiddle = 50, kReach = 40;
  Bytes pixels(kSide * kSide, 0);
  for (const int x : {-1, 0, 1}) {
    for (const int y : {-1, 0, 1}) pixels[(kMiddle + y) * kSide + kMiddle + kReach + x] = 255;
  }
  int highest = kSide, lowest = 0;
  for (int i = 0; i < 500; ++i) {
    Sample sample{Image(pixels.data(), kSide, kSide, 1)};
    Random random(1, 2, i);
    transforms::RandomRotation({.degrees = 30})(sample, random);
    const Bytes turned = sample.image().pixels().to_vector<std::uint8_t>();
    const auto row = static_cast<int>(std::ranges::find(turned, 255) - turned.begin()) / kSide;
    highest = std::min(highest, row);
    lowest = std::max(lowest, row);
  }
  EXPECT_NEAR(highest, kMiddle - kReach / 2, 3);
  EXPECT_NEAR(lowest, kMiddle + kReach / 2, 3);
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
  EXPECT_ERROR(ValueError, "hue", transforms::ColorJitter({.hue = 0.6}));
  EXPECT_ERROR(ValueError, "negative", transforms::ColorJitter({.contrast = -1}));
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  EXPECT_ERROR(ValueError, "finite", transforms::ColorJitter({.brightness = kInfinite}));
  EXPECT_ERROR(ValueError, "finite", transforms::RandomRotation({.degrees = kInfinite}));
  EXPECT_ERROR(ValueError, "bicubic",
               transforms::RandomRotation({.degrees = 3, .interpolation = Interpolation::bicubic}));
  Sample sample = gradient();
  sample.image().to_float();
  Random random(1, 2, 3);
  EXPECT_ERROR(ValueError, "before ToTensor",
               transforms::ColorJitter({.hue = 0.1})(sample, random));
  EXPECT_ERROR(ValueError, "before ToTensor", transforms::Grayscale()(sample, random));
}

}  // namespace
}  // namespace facula::data
