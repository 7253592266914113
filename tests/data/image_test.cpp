#include <facula/data/image.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include <facula/data/transforms.h>
#include <facula/error.h>

#include "data/pixel_source.h"
#include "resized_pixels.h"
#include "tests/io/test_files.h"

namespace facula::data {
namespace {

using io::expect_error;
using Bytes = std::vector<std::uint8_t>;

/// An image on which everything is done at once, pixel by pixel.
struct Plain {
  std::int64_t height, width, channels;
  Bytes pixels;

  std::uint8_t& at(std::int64_t y, std::int64_t x, std::int64_t c) {
    return pixels[static_cast<std::size_t>((y * width + x) * channels + c)];
  }

  static std::int64_t fold(std::int64_t i, std::int64_t size, PaddingMode mode) {
    if (mode == PaddingMode::edge) return std::clamp<std::int64_t>(i, 0, size - 1);
    const std::int64_t border = mode == PaddingMode::reflect ? 0 : 1;
    while (i < 0 || i >= size) i = i < 0 ? -i - border : 2 * (size - 1) - i + border;
    return i;
  }

  Plain crop(const Rect& r, PaddingMode mode, std::uint8_t fill) {
    Plain out{r.height, r.width, channels,
              Bytes(static_cast<std::size_t>(r.height * r.width * channels))};
    for (std::int64_t y = 0; y < r.height; ++y) {
      for (std::int64_t x = 0; x < r.width; ++x) {
        const std::int64_t sy = r.top + y, sx = r.left + x;
        const bool beside = sy < 0 || sy >= height || sx < 0 || sx >= width;
        for (std::int64_t c = 0; c < channels; ++c) {
          out.at(y, x, c) = beside && mode == PaddingMode::constant
                                ? fill
                                : at(fold(sy, height, mode), fold(sx, width, mode), c);
        }
      }
    }
    return out;
  }

  Plain flip(bool horizontal) {
    Plain out = *this;
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        for (std::int64_t c = 0; c < channels; ++c) {
          out.at(y, x, c) = horizontal ? at(y, width - 1 - x, c) : at(height - 1 - y, x, c);
        }
      }
    }
    return out;
  }

  Plain resize(std::int64_t rows, std::int64_t columns, Interpolation interpolation) {
    if (rows == height && columns == width) return *this;
    Plain out{rows, columns, channels, Bytes(static_cast<std::size_t>(rows * columns * channels))};
    resize_to(PixelMemory(pixels.data(), height, width, channels, width * channels), rows, columns,
              interpolation, {0, 0, rows, columns}, out.pixels.data());
    return out;
  }
};

Plain noise(std::int64_t height, std::int64_t width, std::int64_t channels, std::mt19937& random) {
  Plain image{height, width, channels, Bytes(static_cast<std::size_t>(height * width * channels))};
  for (auto& pixel : image.pixels) pixel = static_cast<std::uint8_t>(random());
  return image;
}

/// Pixels that have to be asked for; counts how many were.
struct Source : PixelSource {
  Plain image;
  mutable std::int64_t asked = 0;

  explicit Source(Plain pixels) : image(std::move(pixels)) {
    height = image.height;
    width = image.width;
    channels = image.channels;
  }
  std::unique_ptr<RowReader> rows(const Rect& part) const override {
    asked += part.height * part.width;
    return PixelMemory(image.pixels.data(), height, width, channels, width * channels).rows(part);
  }
};

Bytes bytes_of(Image image) { return image.pixels().to_vector<std::uint8_t>(); }

TEST(Image, DoesInOnePassWhatStepsWouldDo) {
  std::mt19937 random(1);
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
  };
  for (int trial = 0; trial < 3000; ++trial) {
    Plain plain = noise(1 + below(20), 1 + below(20), below(2) == 0 ? 1 : 3, random);
    const Plain original = plain;
    Image image = trial % 3 == 0 ? Image(std::make_shared<Source>(original))
                                 : Image(original.pixels.data(), original.height, original.width,
                                         original.channels);
    std::string steps;
    for (std::int64_t step = below(6); step > 0; --step) {
      const std::int64_t h = plain.height, w = plain.width;
      switch (below(5)) {
        case 0: {  // inside
          const Rect part{below(h), below(w), 1, 1};
          const Rect r{part.top, part.left, 1 + below(h - part.top), 1 + below(w - part.left)};
          image.crop(r);
          plain = plain.crop(r, PaddingMode::constant, 0);
          steps += " crop";
          break;
        }
        case 1: {  // beyond
          const auto mode = static_cast<PaddingMode>(below(4));
          const std::int64_t most = std::max<std::int64_t>(std::min(h, w) - 1, 0);
          const std::int64_t top = below(most + 1), left = below(most + 1);
          const Rect r{-top, -left, h + top + below(most + 1), w + left + below(most + 1)};
          const auto fill = static_cast<std::uint8_t>(random());
          image.crop(r, mode, fill);
          plain = plain.crop(r, mode, fill);
          steps += " pad" + std::to_string(static_cast<int>(mode));
          break;
        }
        case 2: {
          image.flip_horizontal();
          plain = plain.flip(true);
          steps += " mirror";
          break;
        }
        case 3: {
          image.flip_vertical();
          plain = plain.flip(false);
          steps += " flip";
          break;
        }
        default: {
          const std::int64_t rows = 1 + below(24), columns = 1 + below(24);
          image.resize(rows, columns, static_cast<Interpolation>(below(3)));
          plain = plain.resize(rows, columns, Interpolation::nearest);
          steps += " resize";
        }
      }
      if (steps.ends_with("resize")) {
        // The reference must use the interpolation that was drawn: make both forget the difference.
        plain = {image.height(), image.width(), image.channels(), bytes_of(image)};
      }
      ASSERT_EQ(image.height(), plain.height) << steps;
      ASSERT_EQ(image.width(), plain.width) << steps;
    }
    const Image copy = image;
    ASSERT_EQ(bytes_of(copy), plain.pixels) << trial << steps;
    // As numbers in a batch.
    const double mean[] = {0.1, 0.2, 0.3}, std[] = {0.5, 0.6, 0.7};
    std::vector<float> numbers(plain.pixels.size());
    image.to_float().normalize(mean, std).write(numbers.data());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::size_t c = i % static_cast<std::size_t>(plain.channels);
      ASSERT_NEAR(numbers[i], (plain.pixels[i] / 255.0 - mean[c]) / std[c], 1e-6) << steps;
    }
  }
}

TEST(Image, ResizesAndCropsAsInSteps) {
  std::mt19937 random(2);
  Plain plain = noise(31, 40, 3, random);
  for (const auto interpolation :
       {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic}) {
    Image image(plain.pixels.data(), 31, 40, 3);
    image.crop({3, 5, 20, 30}).resize(12, 14, interpolation).crop({2, 1, 9, 10}).flip_horizontal();
    Plain expected = plain.crop({3, 5, 20, 30}, PaddingMode::constant, 0)
                         .resize(12, 14, interpolation)
                         .crop({2, 1, 9, 10}, PaddingMode::constant, 0)
                         .flip(true);
    EXPECT_EQ(bytes_of(image), expected.pixels);
  }
}

TEST(Image, OnlyWhatIsShownIsRead) {
  std::mt19937 random(3);
  const auto source = std::make_shared<Source>(noise(50, 60, 3, random));
  Image image(source);
  image.crop({10, 20, 16, 8}).flip_horizontal().to_float();
  EXPECT_EQ(source->asked, 0);
  EXPECT_EQ(image.tensor().sizes(), IntList({3, 16, 8}));
  EXPECT_EQ(source->asked, 16 * 8);
}

TEST(Image, CopiesDoNotSeeWhatIsWrittenToAnother) {
  std::mt19937 random(4);
  const Plain plain = noise(4, 5, 3, random);
  Image first(plain.pixels.data(), 4, 5, 3);
  first.pixels();
  Image second = first;
  second.pixels().fill_(7);
  EXPECT_EQ(bytes_of(first), plain.pixels);
  EXPECT_EQ(bytes_of(second), Bytes(60, 7));
}

TEST(Image, TakesTensorsOfAnyLayout) {
  const Tensor planes = arange(2 * 3 * 3).to(kUInt8).reshape({3, 2, 3});
  const Bytes interleaved = {0, 6, 12, 1, 7, 13, 2, 8, 14, 3, 9, 15, 4, 10, 16, 5, 11, 17};
  EXPECT_EQ(bytes_of(Image(planes)), interleaved);
  EXPECT_TRUE(Image(planes).tensor().eq(planes).all().item<bool>());
  expect_error<DTypeError>([] { Image(zeros({3, 2, 2})); }, {"float32"});
  expect_error<ShapeError>([] { Image(zeros({2, 2, 2}, kUInt8)); }, {"[2, 2, 2]"});
}

TEST(Image, ConvertsBetweenGreyAndColour) {
  const Bytes rgb = {255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30};
  Image image(rgb.data(), 1, 4, 3);
  image.convert(1);
  EXPECT_EQ(bytes_of(image), (Bytes{76, 150, 29, 18}));  // as Pillow's convert("L")
  image.convert(3);
  EXPECT_EQ(bytes_of(image), (Bytes{76, 76, 76, 150, 150, 150, 29, 29, 29, 18, 18, 18}));
}

TEST(Image, RefusesWhatMakesNoSense) {
  Image image(Bytes(12).data(), 2, 2, 3);
  expect_error<ValueError>([&] { image.crop({0, 0, 0, 2}); }, {"0 x 2"});
  expect_error<ValueError>([&] { image.crop({-2, 0, 4, 2}, PaddingMode::reflect); }, {"2 x 2"});
  expect_error<ValueError>([&] { image.resize(0, 2); }, {"0 x 2"});
  const std::int64_t far = std::numeric_limits<std::int64_t>::max() - 3;
  expect_error<ValueError>([&] { image.crop({far, far, 5, 5}); }, {"5 x 5", "2^28"});
  const double one = 1, zero = 0;
  expect_error<ValueError>([&] { image.normalize(&one, &one); }, {"to_float"});
  Image grey(Bytes(4).data(), 2, 2, 1);
  expect_error<ValueError>([&] { grey.to_float().normalize(&one, &zero); }, {"channel 0"});
  expect_error<ValueError>([] { Image().flip_horizontal(); }, {"no image"});
  expect_error<ValueError>([] { Image(std::shared_ptr<const PixelSource>()); }, {"null"});
  expect_error<ValueError>([] { Image(nullptr, 2, 2, 3); }, {"pixels are null"});
  expect_error<ValueError>([] { Image{Tensor()}; }, {"undefined"});
  expect_error<ShapeError>([] { Image(Bytes(12).data(), 2, 0, 3); }, {"2 x 0"});
  expect_error<ShapeError>([] { Image(Bytes(12).data(), 2, 3, 2); }, {"2 channels"});
}

TEST(Transforms, ChainsByName) {
  std::mt19937 random(5);
  const Plain plain = noise(300, 260, 3, random);
  for (const std::string& name : transforms::names()) {
    Sample sample{Image(plain.pixels.data(), 300, 260, 3)};
    if (name == "cifar-train") sample.image().resize(32, 32);
    Random numbers(1, 2, 3);
    transforms::by_name(name, {0.5, 0.5, 0.5}, {0.2, 0.2, 0.2})(sample, numbers);
    const bool crops = name.starts_with("imagenet");
    const std::int64_t size = crops ? 224 : 32;
    if (crops || name == "cifar-train") {
      EXPECT_EQ(sample.tensor(0).sizes(), IntList({3, size, size})) << name;
    }
    EXPECT_EQ(sample.tensor(0).dtype(), kFloat32) << name;
  }
  expect_error<ValueError>([] { transforms::by_name("cifar", {}, {}); }, {"cifar-train"});
}

TEST(Transforms, SizesOfTorchvision) {
  std::mt19937 random(6);
  const Plain plain = noise(30, 41, 3, random);
  const auto apply = [&](const Transform& transform) {
    Sample sample{Image(plain.pixels.data(), 30, 41, 3)};
    Random numbers(1, 2, 3);
    transform(sample, numbers);
    return sample.image();
  };
  EXPECT_EQ(apply(transforms::Resize({.size = 20})).width(), 27);
  EXPECT_EQ(apply(transforms::Resize({.size = 20, .width = 9})).width(), 9);
  Plain copy = plain;
  EXPECT_EQ(bytes_of(apply(transforms::CenterCrop(20))),
            copy.crop({5, 10, 20, 20}, PaddingMode::constant, 0).pixels);  // round(10.5) is 10
  EXPECT_EQ(bytes_of(apply(transforms::CenterCrop(35))),
            copy.crop({-2, 3, 35, 35}, PaddingMode::constant, 0).pixels);
  expect_error<ValueError>([&] { apply(transforms::RandomCrop({.size = 31})); }, {"31 x 31", "30"});
  expect_error<ValueError>([] { transforms::RandomHorizontalFlip(1.5); }, {"1.5"});
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  expect_error<ValueError>([] { transforms::Resize({.size = kHuge}); }, {"Resize", "pixels"});
  expect_error<ValueError>([] { transforms::CenterCrop(3, kHuge); }, {"CenterCrop", "3 x"});
  expect_error<ValueError>([] { transforms::RandomCrop({.size = 3, .padding = kHuge}); },
                           {"padding is 1099511627776"});
  expect_error<ValueError>([] { transforms::Normalize({0.5}, {0}); }, {"Normalize"});
  expect_error<ValueError>([] { transforms::Normalize({NAN}, {1}); }, {"finite"});
  expect_error<ValueError>([&] { apply(transforms::Normalize({0.5}, {1})); }, {"after ToTensor"});
  for (const std::array<double, 2> range : {std::array{1.0, HUGE_VAL}, {0.0, 1.0}, {1.0, 0.5}}) {
    expect_error<ValueError>([&] { transforms::RandomResizedCrop({.size = 8, .ratio = range}); },
                             {"ratio", "above 0"});
    expect_error<ValueError>([&] { transforms::RandomErasing({.ratio = range}); },
                             {"ratio", "above 0"});
  }
  // Areas that no image has: the middle of the image is taken.
  EXPECT_EQ(apply(transforms::RandomResizedCrop({.size = 8, .scale = {1e300, 1e300}})).width(), 8);
}

TEST(Transforms, RefuseUndefinedImages) {
  for (const Transform& transform : std::initializer_list<Transform>{
           transforms::Resize({.size = 8}), transforms::CenterCrop(8),
           transforms::RandomCrop({.size = 8, .padding = 8}),
           transforms::RandomResizedCrop({.size = 8}), transforms::RandomHorizontalFlip(1),
           transforms::Grayscale(3), transforms::ColorJitter({.brightness = 0.5}),
           transforms::RandomRotation({.degrees = {10, 20}}), transforms::ToTensor()}) {
    Sample sample{std::int64_t{3}, Image()};
    Random numbers(1, 2, 3);
    expect_error<ValueError>([&] { transform(sample, numbers); }, {"field 1", "undefined image"});
  }
}

TEST(Transforms, FlipsAsOftenAsWanted) {
  const Bytes pixels = {1, 2, 3, 4};
  const auto count = [&](const Transform& flip, const Bytes& flipped) {
    int flips = 0;
    for (int i = 0; i < 1000; ++i) {
      Sample sample{Image(pixels.data(), 2, 2, 1)};
      Random numbers(1, 2, i);
      flip(sample, numbers);
      const Bytes result = bytes_of(sample.image());
      EXPECT_TRUE(result == pixels || result == flipped);
      flips += result == flipped;
    }
    return flips;
  };
  EXPECT_NEAR(count(transforms::RandomHorizontalFlip(), {2, 1, 4, 3}), 500, 60);
  EXPECT_NEAR(count(transforms::RandomVerticalFlip(0.2), {3, 4, 1, 2}), 200, 50);
  EXPECT_EQ(count(transforms::RandomVerticalFlip(0), {3, 4, 1, 2}), 0);
}

TEST(Transforms, RandomResizedCropStaysInsideAndCoversItsRange) {
  std::mt19937 random(7);
  const auto source = std::make_shared<Source>(noise(40, 50, 1, random));
  double least = 1, most = 0;
  for (int i = 0; i < 500; ++i) {
    Sample sample{Image(source)};
    Random numbers(9, 0, i);
    transforms::RandomResizedCrop({.size = 8})(sample, numbers);
    source->asked = 0;
    sample.image().pixels();
    const double share = static_cast<double>(source->asked) / 2000;
    least = std::min(least, share);
    most = std::max(most, share);
  }
  EXPECT_GE(least, 0.07);
  EXPECT_LE(least, 0.12);
  EXPECT_GE(most, 0.9);
  EXPECT_LE(most, 1.0);
}

}  // namespace
}  // namespace facula::data
