// Turning images.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <facula/data/image.h>
#include <facula/data/transforms.h>

namespace facula::data {

/// Turns images of one size counter-clockwise, as Pillow's rotate().
class Rotation {
 public:
  struct Options {
    Interpolation interpolation = Interpolation::nearest;
    /// The result is as large as the turned image needs, instead of as large as the source.
    bool expand = false;
    /// {x, y} in pixels from the upper left corner; none: the middle.
    std::optional<std::array<double, 2>> center = {};
    transforms::Fill fill = 0;  ///< where the source has no pixel
  };
  Rotation(std::int64_t height, std::int64_t width, double degrees, const Options& options);

  /// Of the result.
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }
  /// Dense pixels: uint8 [height, width, channels], 1 or 3 channels. Smooth results are rounded
  /// towards 0.
  void run(const std::uint8_t* source, std::int64_t channels, std::uint8_t* destination) const;

 private:
  struct Point {
    double x, y;
  };

  /// Where the pixel that is to be seen at a point comes from. Pixel (x, y) covers the square from
  /// there to (x + 1, y + 1).
  Point origin(double x, double y) const {
    return {cosine_ * x + sine_ * y + shift_.x, cosine_ * y - sine_ * x + shift_.y};
  }
  void expand();
  template <int channels>
  void run_nearest(const std::uint8_t* source, std::uint8_t* destination) const;
  template <int channels, class Curve>
  void run_smooth(const std::uint8_t* source, std::uint8_t* destination) const;

  const Options options_;
  std::int64_t source_height_, source_width_, height_, width_;
  double cosine_, sine_;
  Point shift_ = {};
};

}  // namespace facula::data
