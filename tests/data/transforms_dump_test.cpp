// Applies transforms to pixels that transforms_parity_test.py has chosen.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "data/color.h"
#include "data/rotate.h"

#include "resized_pixels.h"

namespace facula::data {
namespace {

/// A case is these numbers, then the pixels. Results are written one after the other.
struct Case {
  double kind, height, width, channels, a, b, c;
};

enum Kind { resize, brightness, contrast, saturation, hue, rotation };

std::vector<std::uint8_t> transformed(const Case& test, std::vector<std::uint8_t> pixels) {
  const auto height = static_cast<std::int64_t>(test.height);
  const auto width = static_cast<std::int64_t>(test.width);
  const auto channels = static_cast<std::int64_t>(test.channels);
  const Pixels all = {pixels.data(), height * width, channels};
  std::vector<std::uint8_t> result;
  switch (static_cast<int>(test.kind)) {
    case resize: {
      const auto rows = static_cast<std::int64_t>(test.a);
      const auto columns = static_cast<std::int64_t>(test.b);
      result.resize(static_cast<std::size_t>(rows * columns * channels));
      resize_to(PixelMemory(pixels.data(), height, width, channels, width * channels), rows,
                columns, static_cast<Interpolation>(test.c), {0, 0, rows, columns}, result.data());
      return result;
    }
    case brightness: adjust_brightness(all, test.a); break;
    case contrast: adjust_contrast(all, test.a); break;
    case saturation: adjust_saturation(all, test.a); break;
    case hue: adjust_hue(all, test.a); break;
    case rotation:
      result.resize(pixels.size());
      rotate(pixels.data(), height, width, channels, test.a, static_cast<Interpolation>(test.b),
             static_cast<std::uint8_t>(test.c), result.data());
      return result;
    default: ADD_FAILURE() << "unknown kind " << test.kind;
  }
  return pixels;
}

TEST(TransformsDump, Write) {
  const char* path = std::getenv("FACULA_TRANSFORM_CASES");
  if (!path) GTEST_SKIP() << "FACULA_TRANSFORM_CASES, a file of pixels, is not set";
  std::ifstream input(path, std::ios::binary);
  std::ofstream output(std::string(path) + ".out", std::ios::binary);
  Case test;
  int cases = 0;
  while (input.read(reinterpret_cast<char*>(&test), sizeof test)) {
    std::vector<std::uint8_t> pixels(
        static_cast<std::size_t>(test.height * test.width * test.channels));
    ASSERT_TRUE(input.read(reinterpret_cast<char*>(pixels.data()), std::ssize(pixels)));
    const std::vector<std::uint8_t> result = transformed(test, std::move(pixels));
    output.write(reinterpret_cast<const char*>(result.data()), std::ssize(result));
    ++cases;
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace facula::data
