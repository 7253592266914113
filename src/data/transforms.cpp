#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include <facula/data/transforms.h>

#include "base/check.h"
#include "data/random_rect.h"

namespace facula::data::transforms {
namespace {

/// So that what is computed with sizes does not overflow; far more than memory holds.
constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;

void check_size(std::int64_t size, std::int64_t width, const char* transform) {
  check<ValueError>(size >= 1 && width >= 0 && std::max(size, width) <= kMostPixels,
                    "{}: size {} x {}, expected 1 to {} pixels", transform, size, width,
                    kMostPixels);
}

void check_probability(double p, const char* transform) {
  check<ValueError>(p >= 0 && p <= 1, "{}: probability {}, expected 0 to 1", transform, p);
}

void check_range(const std::array<double, 2>& range, const char* what) {
  check<ValueError>(range[0] > 0 && range[0] <= range[1] && std::isfinite(range[1]),
                    "{} is [{}, {}], expected two finite values above 0 in ascending order", what,
                    range[0], range[1]);
}

/// Where a crop of `size` pixels in the middle of `length` begins.
std::int64_t middle(std::int64_t length, std::int64_t size) {
  return size <= length ? rounded(static_cast<double>(length - size) / 2) : -((size - length) / 2);
}

/// The largest part in the middle whose ratio of sides lies within the bounds.
Rect central(const Image& image, const std::array<double, 2>& ratio) {
  std::int64_t height = image.height(), width = image.width();
  const double shape = static_cast<double>(width) / static_cast<double>(height);
  if (shape < ratio[0]) height = rounded(static_cast<double>(width) / ratio[0]);
  if (shape > ratio[1]) width = rounded(static_cast<double>(height) * ratio[1]);
  height = std::clamp<std::int64_t>(height, 1, image.height());
  width = std::clamp<std::int64_t>(width, 1, image.width());
  return {(image.height() - height) / 2, (image.width() - width) / 2, height, width};
}

/// A part of random area and shape.
Rect draw_part(const Image& image, const RandomResizedCropOptions& options, Random& random) {
  for (int attempt = 0; attempt < kDrawAttempts; ++attempt) {
    const auto [width, height] =
        DrawnSides(image.height() * image.width(), options.scale, options.ratio, random);
    if (width < 1 || height < 1 || width > image.width() || height > image.height()) continue;
    return draw_place(image.height(), image.width(), height, width, random);
  }
  return central(image, options.ratio);
}

}  // namespace

void Compose::operator()(Sample& sample, Random& random) const {
  for (const Transform& transform : transforms_) transform(sample, random);
}

void ToTensor::operator()(Sample& sample, Random&) const { sample.image().to_float(); }

Resize::Resize(const ResizeOptions& options) : options_(options) {
  check_size(options.size, options.width, "Resize");
}

void Resize::operator()(Sample& sample, Random&) const {
  Image& image = sample.image();
  std::int64_t height = options_.size, width = options_.width;
  if (width == 0) {
    const std::int64_t shorter = std::min(image.height(), image.width());
    height = image.height() * options_.size / shorter;
    width = image.width() * options_.size / shorter;
  }
  image.resize(height, width, options_.interpolation);
}

CenterCrop::CenterCrop(std::int64_t size, std::int64_t width)
    : height_(size), width_(width == 0 ? size : width) {
  check_size(size, width, "CenterCrop");
}

void CenterCrop::operator()(Sample& sample, Random&) const {
  Image& image = sample.image();
  image.crop({middle(image.height(), height_), middle(image.width(), width_), height_, width_});
}

RandomCrop::RandomCrop(const RandomCropOptions& options) : options_(options) {
  check_size(options.size, options.width, "RandomCrop");
  check<ValueError>(options.padding >= 0 && options.padding <= kMostPixels,
                    "RandomCrop: padding is {}, expected 0 to {} pixels", options.padding,
                    kMostPixels);
  if (options_.width == 0) options_.width = options_.size;
}

void RandomCrop::operator()(Sample& sample, Random& random) const {
  Image& image = sample.image();
  const std::int64_t padding = options_.padding;
  const std::int64_t rows = image.height() + 2 * padding - options_.size;
  const std::int64_t columns = image.width() + 2 * padding - options_.width;
  check<ValueError>(rows >= 0 && columns >= 0,
                    "RandomCrop: {} x {} pixels do not fit an image of {} x {} with padding {}; "
                    "resize or pad more",
                    options_.size, options_.width, image.height(), image.width(), padding);
  const std::int64_t top = random.below(rows + 1), left = random.below(columns + 1);
  image.crop({top - padding, left - padding, options_.size, options_.width}, options_.padding_mode,
             options_.fill);
}

RandomResizedCrop::RandomResizedCrop(const RandomResizedCropOptions& options) : options_(options) {
  check_size(options.size, options.width, "RandomResizedCrop");
  check_range(options.scale, "RandomResizedCrop: scale");
  check_range(options.ratio, "RandomResizedCrop: ratio");
  if (options_.width == 0) options_.width = options_.size;
}

void RandomResizedCrop::operator()(Sample& sample, Random& random) const {
  Image& image = sample.image();
  image.crop(draw_part(image, options_, random));
  image.resize(options_.size, options_.width, options_.interpolation);
}

RandomHorizontalFlip::RandomHorizontalFlip(double p) : p_(p) {
  check_probability(p, "RandomHorizontalFlip");
}

void RandomHorizontalFlip::operator()(Sample& sample, Random& random) const {
  if (random.chance(p_)) sample.image().flip_horizontal();
}

RandomVerticalFlip::RandomVerticalFlip(double p) : p_(p) {
  check_probability(p, "RandomVerticalFlip");
}

void RandomVerticalFlip::operator()(Sample& sample, Random& random) const {
  if (random.chance(p_)) sample.image().flip_vertical();
}

Grayscale::Grayscale(std::int64_t channels) : channels_(channels) {
  check<ValueError>(channels == 1 || channels == 3, "Grayscale: {} channels, expected 1 or 3",
                    channels);
}

void Grayscale::operator()(Sample& sample, Random&) const {
  Image& image = sample.image();
  check<ValueError>(!image.is_float(), "Grayscale: works on pixels; put it before ToTensor");
  image.convert(1).convert(channels_);
}

const std::vector<std::string>& names() {
  static const auto& names = *new std::vector<std::string>{"none", "mnist", "cifar-train",
                                                           "imagenet-train", "imagenet-val"};
  return names;
}

Transform by_name(const std::string& name, const std::vector<double>& mean,
                  const std::vector<double>& std) {
  check<ValueError>(std::count(names().begin(), names().end(), name) == 1,
                    "transforms: '{}' is unknown; known are {}", name, fmt::join(names(), ", "));
  std::vector<Transform> chain;
  if (name == "cifar-train") chain = {RandomCrop({.size = 32, .padding = 4})};
  if (name == "imagenet-train") chain = {RandomResizedCrop({.size = 224})};
  if (name == "imagenet-val") chain = {Resize({.size = 256}), CenterCrop(224)};
  if (name == "cifar-train" || name == "imagenet-train") chain.emplace_back(RandomHorizontalFlip());
  chain.emplace_back(ToTensor());
  if (name != "none") chain.emplace_back(Normalize(mean, std));
  return Compose(std::move(chain));
}

}  // namespace facula::data::transforms
