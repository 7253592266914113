// Transforms that change pixels one way or another: colours and rotation.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include <fmt/core.h>

#include <facula/data/transforms.h>

#include "base/check.h"
#include "data/color.h"
#include "data/rotate.h"

namespace facula::data::transforms {
namespace {

using Bounds = std::array<double, 2>;

/// Brightness, contrast, saturation and hue.
struct Adjustment {
  const char* name;
  void (*apply)(const Pixels&, double);
  double middle;
  Bounds bounds;
};
/// A center of rotation, so that what is computed with it is exact to a fraction of a pixel.
constexpr double kFarthest = 1 << 28;
constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr Adjustment kAdjustments[] = {{"brightness", adjust_brightness, 1, {0, kInfinite}},
                                       {"contrast", adjust_contrast, 1, {0, kInfinite}},
                                       {"saturation", adjust_saturation, 1, {0, kInfinite}},
                                       {"hue", adjust_hue, 0, {-0.5, 0.5}}};

/// The range from which `what` is drawn. Throws ValueError.
Bounds drawn_from(const Range& range, double middle, const char* what) {
  check<ValueError>(std::isfinite(range.low) && std::isfinite(range.high),
                    "{} from {} to {}, expected finite numbers", what, range.low, range.high);
  check<ValueError>(std::isfinite(range.high - range.low),
                    "{} from {} to {}, expected a range of finite width", what, range.low,
                    range.high);
  check<ValueError>(!range.around_middle || range.high >= 0,
                    "{} {}, a single number must not be negative; give a range as {{low, high}}",
                    what, range.high);
  check<ValueError>(range.low <= range.high,
                    "{} from {} to {}, expected a range in ascending order", what, range.low,
                    range.high);
  if (!range.around_middle) return {range.low, range.high};
  return {middle + range.low, middle + range.high};
}

/// uint8 [H, W, C] that the image of the sample owns.
Tensor pixels_of(Sample& sample, const char* transform) {
  Image& image = sample.image();
  check<ValueError>(!image.is_float(), "{}: works on pixels; put it before ToTensor", transform);
  return image.pixels();
}

}  // namespace

ColorJitter::ColorJitter(const ColorJitterOptions& options) {
  const Range* const ranges[] = {&options.brightness, &options.contrast, &options.saturation,
                                 &options.hue};
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const auto& [name, apply, middle, bounds] = kAdjustments[i];
    const std::string what = fmt::format("ColorJitter: {}", name);
    auto& [low, high] = ranges_[i] = drawn_from(*ranges[i], middle, what.c_str());
    if (ranges[i]->around_middle) low = std::max(low, bounds[0]);
    check<ValueError>(low >= bounds[0] && high <= bounds[1],
                      "{} from {} to {}, expected values from {} to {}", what, low, high, bounds[0],
                      bounds[1]);
  }
}

void ColorJitter::operator()(Sample& sample, Random& random) const {
  const Tensor tensor = pixels_of(sample, "ColorJitter");
  const Pixels pixels = {tensor.data_ptr<std::uint8_t>(), tensor.size(0) * tensor.size(1),
                         tensor.size(2)};
  std::array<std::size_t, 4> order = {0, 1, 2, 3};
  for (std::int64_t i = 3; i > 0; --i) {
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(random.below(i + 1))]);
  }
  for (const std::size_t i : order) {
    const auto& [low, high] = ranges_[i];
    const Adjustment& adjustment = kAdjustments[i];
    if (low == adjustment.middle && high == adjustment.middle) continue;
    adjustment.apply(pixels, random.uniform(low, high));
  }
}

RandomRotation::RandomRotation(const RandomRotationOptions& options) : options_(options) {
  drawn_from(options.degrees, 0, "RandomRotation: degrees");
  if (!options.center) return;
  const auto& [x, y] = *options.center;
  check<ValueError>(std::fabs(x) <= kFarthest && std::fabs(y) <= kFarthest,
                    "RandomRotation: center [{}, {}], expected at most {} pixels in each direction",
                    x, y, kFarthest);
}

void RandomRotation::operator()(Sample& sample, Random& random) const {
  const double degrees = random.uniform(options_.degrees.low, options_.degrees.high);
  const Tensor source = pixels_of(sample, "RandomRotation");
  const std::int64_t channels = source.size(2);
  check<ValueError>(!options_.fill.colored || channels == 3,
                    "RandomRotation: fill has 3 levels, the image 1 channel; give one level");
  const Rotation rotation(
      source.size(0), source.size(1), degrees,
      {options_.interpolation, options_.expand, options_.center, options_.fill});
  Tensor turned = empty({rotation.height(), rotation.width(), channels}, kUInt8);
  rotation.run(source.data_ptr<std::uint8_t>(), channels, turned.data_ptr<std::uint8_t>());
  sample.image() = Image(turned.permute({2, 0, 1}));
}

}  // namespace facula::data::transforms
