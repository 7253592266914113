// Rectangles of random area and shape, drawn as torchvision draws them.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>

#include <facula/data/sample.h>

namespace facula::data {

/// Half to even, as torchvision rounds.
inline std::int64_t rounded(double x) { return std::llrint(x); }

/// Two sides whose product is a share of `area` drawn from `scale` and whose quotient, first over
/// second, is drawn from `ratio`, uniformly in its logarithm.
struct DrawnSides {
  std::int64_t first, second;

  DrawnSides(std::int64_t area, const std::array<double, 2>& scale,
             const std::array<double, 2>& ratio, Random& random) {
    const double target = static_cast<double>(area) * random.uniform(scale[0], scale[1]);
    const double quotient = std::exp(random.uniform(std::log(ratio[0]), std::log(ratio[1])));
    first = rounded(std::sqrt(target * quotient));
    second = rounded(std::sqrt(target / quotient));
  }
};

/// Attempts before giving up.
inline constexpr int kDrawAttempts = 10;

/// A place for height x width pixels in an image of rows x columns.
inline Rect draw_place(std::int64_t rows, std::int64_t columns, std::int64_t height,
                       std::int64_t width, Random& random) {
  const std::int64_t top = random.below(rows - height + 1);
  return {top, random.below(columns - width + 1), height, width};
}

}  // namespace facula::data
