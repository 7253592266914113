// Transforms that change pixels one way or another: colours and rotation.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include <facula/data/transforms.h>

#include "base/check.h"
#include "data/color.h"
#include "data/rotate.h"

namespace facula::data::transforms {
namespace {

/// Whether factors or angles can be drawn that far around the middle.
bool is_reach(double x) { return x >= 0 && std::isfinite(x); }

/// uint8 [H, W, C] that the image of the sample owns.
Tensor pixels_of(Sample& sample, const char* transform) {
  Image& image = sample.image();
  check<ValueError>(!image.is_float(), "{}: works on pixels; put it before ToTensor", transform);
  return image.pixels();
}

}  // namespace

ColorJitter::ColorJitter(const ColorJitterOptions& options) : options_(options) {
  check<ValueError>(
      is_reach(options.brightness) && is_reach(options.contrast) && is_reach(options.saturation),
      "ColorJitter: brightness {}, contrast {} and saturation {} must be finite and not negative",
      options.brightness, options.contrast, options.saturation);
  check<ValueError>(options.hue >= 0 && options.hue <= 0.5,
                    "ColorJitter: hue {}, expected 0 to 0.5", options.hue);
}

void ColorJitter::operator()(Sample& sample, Random& random) const {
  const Tensor tensor = pixels_of(sample, "ColorJitter");
  const Pixels pixels = {tensor.data_ptr<std::uint8_t>(), tensor.size(0) * tensor.size(1),
                         tensor.size(2)};
  const auto factor = [&](double range) {
    return random.uniform(std::max(0.0, 1 - range), 1 + range);
  };
  std::array<int, 4> order = {0, 1, 2, 3};
  for (int i = 3; i > 0; --i) {
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(random.below(i + 1))]);
  }
  for (const int step : order) {
    if (step == 0 && options_.brightness > 0) {
      adjust_brightness(pixels, factor(options_.brightness));
    } else if (step == 1 && options_.contrast > 0) {
      adjust_contrast(pixels, factor(options_.contrast));
    } else if (step == 2 && options_.saturation > 0) {
      adjust_saturation(pixels, factor(options_.saturation));
    } else if (step == 3 && options_.hue > 0) {
      adjust_hue(pixels, random.uniform(-options_.hue, options_.hue));
    }
  }
}

RandomRotation::RandomRotation(const RandomRotationOptions& options) : options_(options) {
  check<ValueError>(is_reach(options.degrees),
                    "RandomRotation: degrees {}, expected a finite number of at least 0",
                    options.degrees);
  check<ValueError>(options.interpolation != Interpolation::bicubic,
                    "RandomRotation: bicubic interpolation is not supported; use bilinear");
}

void RandomRotation::operator()(Sample& sample, Random& random) const {
  const double degrees = random.uniform(-options_.degrees, options_.degrees);
  const Tensor tensor = pixels_of(sample, "RandomRotation");
  auto* pixels = tensor.data_ptr<std::uint8_t>();
  thread_local std::vector<std::uint8_t> source;
  source.assign(pixels, pixels + tensor.numel());
  rotate(source.data(), tensor.size(0), tensor.size(1), tensor.size(2), degrees,
         options_.interpolation, options_.fill, pixels);
}

}  // namespace facula::data::transforms
