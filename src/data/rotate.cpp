#include "data/rotate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace facula::data {
namespace {

struct Point {
  double x, y;
};

/// Where the pixel that is to be seen at a point comes from. Pixel (x, y) covers the square from
/// there to (x + 1, y + 1).
struct Turn {
  double cosine, sine;
  Point shift;

  Turn(std::int64_t height, std::int64_t width, double degrees) {
    const double angle = -degrees * (std::numbers::pi / 180);
    // Right angles are to be exact.
    cosine = std::round(std::cos(angle) * 1e15) / 1e15;
    sine = std::round(std::sin(angle) * 1e15) / 1e15;
    const double x = static_cast<double>(width) / 2, y = static_cast<double>(height) / 2;
    shift = {x - cosine * x - sine * y, y + sine * x - cosine * y};
  }

  Point operator()(double x, double y) const {
    return {cosine * x + sine * y + shift.x, cosine * y - sine * x + shift.y};
  }
};

template <int channels>
void turn_nearest(const Turn& turn, const std::uint8_t* source, std::int64_t height,
                  std::int64_t width, std::uint8_t* destination) {
  // Fixed point numbers with 16 bits after the point, as Pillow steps along the rows.
  const auto fixed = [](double v) {
    return static_cast<std::int64_t>(std::floor(v * 65536 + 0.5));
  };
  const std::int64_t cosine = fixed(turn.cosine), sine = fixed(turn.sine),
                     minus = fixed(-turn.sine);
  const Point corner = turn(0.5, 0.5);
  const std::int64_t left = fixed(corner.x), top = fixed(corner.y);
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x, destination += channels) {
      const std::int64_t from_x = (left + y * sine + x * cosine) >> 16;
      const std::int64_t from_y = (top + y * cosine + x * minus) >> 16;
      if (from_x < 0 || from_x >= width || from_y < 0 || from_y >= height) continue;
      const std::uint8_t* pixel = source + (from_y * width + from_x) * channels;
      for (int c = 0; c < channels; ++c) destination[c] = pixel[c];
    }
  }
}

template <int channels>
void turn_bilinear(const Turn& turn, const std::uint8_t* source, std::int64_t height,
                   std::int64_t width, std::uint8_t* destination) {
  const auto w = static_cast<double>(width), h = static_cast<double>(height);
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x, destination += channels) {
      const Point p = turn(static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5);
      if (!(p.x >= 0 && p.x < w && p.y >= 0 && p.y < h)) continue;
      // Between the middles of four pixels; at the border, between a pixel and itself.
      const auto x0 = static_cast<std::int64_t>(p.x + 0.5) - 1;
      const auto y0 = static_cast<std::int64_t>(p.y + 0.5) - 1;
      const double right_share = p.x - 0.5 - static_cast<double>(x0);
      const double lower_share = p.y - 0.5 - static_cast<double>(y0);
      const std::int64_t west = std::max<std::int64_t>(x0, 0) * channels;
      const std::int64_t east = std::min(x0 + 1, width - 1) * channels;
      const std::uint8_t* upper = source + std::max<std::int64_t>(y0, 0) * width * channels;
      const std::uint8_t* lower = source + std::min(y0 + 1, height - 1) * width * channels;
      for (int c = 0; c < channels; ++c) {
        const double above = upper[west + c] + (upper[east + c] - upper[west + c]) * right_share;
        const double below = lower[west + c] + (lower[east + c] - lower[west + c]) * right_share;
        destination[c] = static_cast<std::uint8_t>(above + (below - above) * lower_share);
      }
    }
  }
}

}  // namespace

void rotate(const std::uint8_t* source, std::int64_t height, std::int64_t width,
            std::int64_t channels, double degrees, Interpolation interpolation, std::uint8_t fill,
            std::uint8_t* destination) {
  std::memset(destination, fill, static_cast<std::size_t>(height * width * channels));
  const Turn turn(height, width, degrees);
  const bool smooth = interpolation != Interpolation::nearest;
  const auto run = channels == 3 ? (smooth ? turn_bilinear<3> : turn_nearest<3>)
                                 : (smooth ? turn_bilinear<1> : turn_nearest<1>);
  run(turn, source, height, width, destination);
}

}  // namespace facula::data
