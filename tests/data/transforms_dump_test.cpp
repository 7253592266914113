// Applies transforms to pixels that transforms_parity_test.py has chosen.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <facula/data/transforms.h>

#include "data/pixel_source.h"

namespace facula::data {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// A case is these numbers, then the pixels. Results are written one after the other.
struct Case {
  double kind, height, width, channels, numbers[6];

  std::int64_t operator[](int i) const { return static_cast<std::int64_t>(numbers[i]); }
  transforms::Range range(int i) const { return {numbers[i], numbers[i + 1]}; }
  /// From which nothing but one value is drawn.
  transforms::Range only(int i) const { return {numbers[i], numbers[i]}; }
};

enum Kind {
  resize,
  brightness,
  contrast,
  saturation,
  hue,
  rotation,
  shorter_side,
  center_crop,
  random_crop,
  horizontal_flip,
  vertical_flip,
  grayscale,
  resized_crop,
  normalize,
  drawn_crops,
  drawn_holes,
  drawn_colors,
  drawn_angles
};

/// Pixels that remember which part of them was asked for last.
struct Watched : PixelSource {
  const Bytes& pixels;
  mutable Rect asked;

  Watched(const Bytes& all, std::int64_t rows, std::int64_t columns) : pixels(all) {
    height = rows;
    width = columns;
    channels = 1;
  }
  std::unique_ptr<RowReader> rows(const Rect& part) const override {
    asked = part;
    return PixelMemory(pixels.data(), height, width, 1, width).rows(part);
  }
};

template <class T>
void append(Bytes& bytes, const T* values, std::int64_t count) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(values);
  bytes.insert(bytes.end(), first, first + count * static_cast<std::int64_t>(sizeof(T)));
}

/// What the public transform makes of the image.
Bytes applied(const Transform& transform, Image image, std::int64_t draw = 0) {
  Sample sample{std::move(image)};
  Random random(5, 0, draw);
  transform(sample, random);
  const Tensor values = sample.tensor(0).permute({1, 2, 0}).contiguous();
  Bytes result;
  append(result, static_cast<const std::uint8_t*>(values.raw_data()), values.nbytes());
  return result;
}

/// The regions that RandomResizedCrop draws.
Bytes crops(const std::shared_ptr<const Watched>& image, int count) {
  Bytes result;
  for (int i = 0; i < count; ++i) {
    applied(transforms::RandomResizedCrop({.size = 8}), Image(image), i);
    const Rect& part = image->asked;
    for (const std::int64_t side : {part.top, part.left, part.height, part.width}) {
      const auto number = static_cast<double>(side);
      append(result, &number, 1);
    }
  }
  return result;
}

/// Images that are 1 where RandomErasing has erased.
Bytes holes(std::int64_t height, std::int64_t width, int count) {
  const transforms::RandomErasing erase({.p = 1, .value = 1});
  Bytes result;
  for (int i = 0; i < count; ++i) {
    Sample sample{zeros({1, height, width})};
    Random random(5, 0, i);
    erase(sample, random);
    const Tensor erased = sample.tensor(0).to(kUInt8);
    append(result, erased.data_ptr<std::uint8_t>(), erased.numel());
  }
  return result;
}

/// What the transform makes of the image with one draw after the other.
Bytes draws(const Transform& transform, const Image& image, std::int64_t count) {
  Bytes result;
  for (std::int64_t i = 0; i < count; ++i) {
    const Bytes one = applied(transform, image, i);
    result.insert(result.end(), one.begin(), one.end());
  }
  return result;
}

transforms::RandomRotation rotation_of(const Case& test) {
  const auto level = static_cast<std::uint8_t>(test[2]);
  const std::int64_t wanted = test[3];
  transforms::RandomRotationOptions options = {.degrees = test.only(0),
                                               .interpolation = static_cast<Interpolation>(test[1]),
                                               .expand = (wanted & 1) != 0,
                                               .fill = level};
  if (wanted & 2) options.center = {{test.numbers[4], test.numbers[5]}};
  if (wanted & 4) options.fill = {level, 5, 200};
  return transforms::RandomRotation(options);
}

Bytes transformed(const Case& test, const Bytes& pixels) {
  const auto height = static_cast<std::int64_t>(test.height);
  const auto width = static_cast<std::int64_t>(test.width);
  const auto channels = static_cast<std::int64_t>(test.channels);
  Image image(pixels.data(), height, width, channels);
  switch (static_cast<int>(test.kind)) {
    case resize:
      return applied(transforms::Resize({.size = test[0],
                                         .width = test[1],
                                         .interpolation = static_cast<Interpolation>(test[2])}),
                     image);
    case shorter_side:
      return applied(transforms::Resize(
                         {.size = test[0], .interpolation = static_cast<Interpolation>(test[1])}),
                     image);
    case center_crop: return applied(transforms::CenterCrop(test[0], test[1]), image);
    case random_crop:
      return applied(transforms::RandomCrop({.size = test[0],
                                             .width = test[1],
                                             .padding = test[2],
                                             .padding_mode = static_cast<PaddingMode>(test[3]),
                                             .fill = static_cast<std::uint8_t>(test[4])}),
                     image, test[5]);
    case horizontal_flip: return applied(transforms::RandomHorizontalFlip(1), image);
    case vertical_flip: return applied(transforms::RandomVerticalFlip(1), image);
    case grayscale: return applied(transforms::Grayscale(test[0]), image);
    case resized_crop:
      image.crop({test[0], test[1], test[2], test[3]});
      image.resize(test[4] / 4096, test[4] % 4096, static_cast<Interpolation>(test[5]));
      return image.pixels().to_vector<std::uint8_t>();
    case normalize: {
      std::vector<double> mean = {0.485, 0.456, 0.406}, std = {0.229, 0.224, 0.225};
      mean.resize(static_cast<std::size_t>(channels));
      std.resize(static_cast<std::size_t>(channels));
      return applied(
          transforms::Compose({transforms::ToTensor(), transforms::Normalize(mean, std)}), image);
    }
    case brightness: return applied(transforms::ColorJitter({.brightness = test.only(0)}), image);
    case contrast: return applied(transforms::ColorJitter({.contrast = test.only(0)}), image);
    case saturation: return applied(transforms::ColorJitter({.saturation = test.only(0)}), image);
    case hue: return applied(transforms::ColorJitter({.hue = test.only(0)}), image);
    case rotation: return applied(rotation_of(test), image);
    case drawn_crops:
      return crops(std::make_shared<Watched>(pixels, height, width), static_cast<int>(test[0]));
    case drawn_holes: return holes(height, width, static_cast<int>(test[0]));
    case drawn_colors:
      return draws(transforms::ColorJitter({.brightness = test.range(1),
                                            .contrast = test.range(1),
                                            .saturation = test.range(1),
                                            .hue = test.range(3)}),
                   image, test[0]);
    case drawn_angles:
      return draws(transforms::RandomRotation({.degrees = test.range(1)}), image, test[0]);
    default: ADD_FAILURE() << "unknown kind " << test.kind;
  }
  return {};
}

TEST(TransformsDump, Write) {
  const char* path = std::getenv("FACULA_TRANSFORM_CASES");
  if (!path) GTEST_SKIP() << "FACULA_TRANSFORM_CASES, a file of pixels, is not set";
  std::ifstream input(path, std::ios::binary);
  std::ofstream output(std::string(path) + ".out", std::ios::binary);
  Case test;
  int cases = 0;
  while (input.read(reinterpret_cast<char*>(&test), sizeof test)) {
    Bytes pixels(static_cast<std::size_t>(test.height * test.width * test.channels));
    ASSERT_TRUE(input.read(reinterpret_cast<char*>(pixels.data()), std::ssize(pixels)));
    const Bytes result = transformed(test, pixels);
    output.write(reinterpret_cast<const char*>(result.data()), std::ssize(result));
    ++cases;
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace facula::data
