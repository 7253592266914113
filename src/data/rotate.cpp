#include "data/rotate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace facula::data {
namespace {

/// So that right angles are exact, and the others those of Pillow.
double with_15_digits(double x) { return static_cast<double>(std::round(x * 1e15L)) / 1e15; }

/// Between two neighbours, t of the way.
struct Linear {
  static constexpr int kTaps = 2;
  static double at(const double* v, double t) { return v[0] + (v[1] - v[0]) * t; }
};

/// Between the inner two of four neighbours: cubic convolution with a = -1, where resizing has
/// -0.5.
struct Cubic {
  static constexpr int kTaps = 4;
  static double at(const double* v, double t) {
    const double first = v[2] - v[0], second = 2 * (v[0] - v[1]) + v[2] - v[3];
    const double third = v[1] - v[0] - v[2] + v[3];  // in this order: rounded as Pillow's
    return v[1] + t * (first + t * (second + t * third));
  }
};

}  // namespace

Rotation::Rotation(std::int64_t height, std::int64_t width, double degrees, const Options& options)
    : options_(options),
      source_height_(height),
      source_width_(width),
      height_(height),
      width_(width) {
  // What follows is Pillow's in the order of its operations: where a corner comes to lie a rounding
  // error beyond a pixel, a size is one more.
  double turn = std::fmod(degrees, 360);
  if (turn < 0) turn += 360;
  const double angle = -(turn * (std::numbers::pi / 180));
  cosine_ = with_15_digits(std::cos(angle));
  sine_ = with_15_digits(std::sin(angle));
  const double x = options.center ? (*options.center)[0] : static_cast<double>(width) / 2;
  const double y = options.center ? (*options.center)[1] : static_cast<double>(height) / 2;
  shift_ = origin(-x, -y);
  shift_ = {shift_.x + x, shift_.y + y};
  if (options.expand) expand();
}

/// Makes room for all corners. The middle of the result shows what the middle of the old frame did.
void Rotation::expand() {
  const auto width = static_cast<double>(source_width_);
  const auto height = static_cast<double>(source_height_);
  if (!options_.center && cosine_ == 0) {
    // Corners between pixels would make room for one more.
    std::swap(height_, width_);
  } else {
    const Point corners[] = {origin(0, 0), origin(width, 0), origin(width, height),
                             origin(0, height)};
    const auto [left, right] = std::ranges::minmax(corners, {}, &Point::x);
    const auto [top, bottom] = std::ranges::minmax(corners, {}, &Point::y);
    width_ = static_cast<std::int64_t>(std::ceil(right.x) - std::floor(left.x));
    height_ = static_cast<std::int64_t>(std::ceil(bottom.y) - std::floor(top.y));
  }
  shift_ = origin((width - static_cast<double>(width_)) / 2,
                  (height - static_cast<double>(height_)) / 2);
}

template <int channels>
void Rotation::run_nearest(const std::uint8_t* source, std::uint8_t* destination) const {
  // Fixed point numbers with 16 bits after the point, as Pillow steps along the rows.
  const auto fixed = [](double v) {
    return static_cast<std::int64_t>(std::floor(v * 65536 + 0.5));
  };
  const std::int64_t cosine = fixed(cosine_), sine = fixed(sine_), minus = fixed(-sine_);
  const Point corner = origin(0.5, 0.5);
  const std::int64_t left = fixed(corner.x), top = fixed(corner.y);
  for (std::int64_t y = 0; y < height_; ++y) {
    for (std::int64_t x = 0; x < width_; ++x, destination += channels) {
      const std::int64_t from_x = (left + y * sine + x * cosine) >> 16;
      const std::int64_t from_y = (top + y * cosine + x * minus) >> 16;
      const bool inside =
          from_x >= 0 && from_x < source_width_ && from_y >= 0 && from_y < source_height_;
      const std::uint8_t* pixel = inside ? source + (from_y * source_width_ + from_x) * channels
                                         : options_.fill.levels.data();
      std::copy_n(pixel, channels, destination);
    }
  }
}

template <int channels, class Curve>
void Rotation::run_smooth(const std::uint8_t* source, std::uint8_t* destination) const {
  constexpr int kTaps = Curve::kTaps;
  const auto right = static_cast<double>(source_width_),
             bottom = static_cast<double>(source_height_);
  for (std::int64_t y = 0; y < height_; ++y) {
    for (std::int64_t x = 0; x < width_; ++x, destination += channels) {
      const Point p = origin(static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5);
      if (!(p.x >= 0 && p.x < right && p.y >= 0 && p.y < bottom)) {
        std::copy_n(options_.fill.levels.data(), channels, destination);
        continue;
      }
      // Between the middles of pixels; beyond the border, those at the border once more.
      const double column = std::floor(p.x - 0.5), row = std::floor(p.y - 0.5);
      const std::uint8_t* rows[kTaps];
      std::int64_t columns[kTaps];
      for (int i = 0; i < kTaps; ++i) {
        const std::int64_t step = i + 1 - kTaps / 2;
        rows[i] = source + std::clamp<std::int64_t>(static_cast<std::int64_t>(row) + step, 0,
                                                    source_height_ - 1) *
                               source_width_ * channels;
        columns[i] = std::clamp<std::int64_t>(static_cast<std::int64_t>(column) + step, 0,
                                              source_width_ - 1) *
                     channels;
      }
      for (int c = 0; c < channels; ++c) {
        double line[kTaps], values[kTaps];
        for (int j = 0; j < kTaps; ++j) {
          for (int i = 0; i < kTaps; ++i) line[i] = rows[j][columns[i] + c];
          values[j] = Curve::at(line, p.x - 0.5 - column);
        }
        destination[c] =
            static_cast<std::uint8_t>(std::clamp(Curve::at(values, p.y - 0.5 - row), 0.0, 255.0));
      }
    }
  }
}

void Rotation::run(const std::uint8_t* source, std::int64_t channels,
                   std::uint8_t* destination) const {
  const auto run = [&]<int count>() {
    switch (options_.interpolation) {
      case Interpolation::nearest: return run_nearest<count>(source, destination);
      case Interpolation::bilinear: return run_smooth<count, Linear>(source, destination);
      case Interpolation::bicubic: return run_smooth<count, Cubic>(source, destination);
    }
  };
  channels == 3 ? run.template operator()<3>() : run.template operator()<1>();
}

}  // namespace facula::data
