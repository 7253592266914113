// Transforms of numbers: normalising an image, erasing parts of it, mixing the images of a batch.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include <facula/data/transforms.h>

#include "base/check.h"
#include "base/per_thread.h"
#include "data/random_rect.h"

namespace facula::data::transforms {
namespace {

// --- One sample ----------------------------------------------------------------------------------

/// The sample's first image, which must hold numbers, or what was one; else its first tensor,
/// float32 [C, H, W].
Sample::Field& numbers_of(Sample& sample, const char* transform) {
  Sample::Field* first = nullptr;
  for (Sample::Field& field : sample.fields()) {
    const bool is_tensor = std::holds_alternative<Tensor>(field.value);
    if (is_tensor && field.was_image) {
      first = &field;
      break;
    }
    if (const auto* image = std::get_if<Image>(&field.value)) {
      check<ValueError>(image->defined(), "{}: the image is undefined; give it pixels", transform);
      check<ValueError>(image->is_float(), "{}: works on numbers; put it after ToTensor",
                        transform);
      return field;
    }
    if (is_tensor && !first) first = &field;
  }
  check<ValueError>(first != nullptr, "{}: none of the {} fields is an image or a tensor",
                    transform, sample.size());
  const auto& tensor = std::get<Tensor>(first->value);
  check<ValueError>(tensor.defined(), "{}: the tensor is undefined; give it a value", transform);
  check<DTypeError>(tensor.dtype() == kFloat32, "{}: tensor is {}, expected float32", transform,
                    name_of(tensor.dtype()));
  check<ShapeError>(tensor.dim() == 3, "{}: tensor of size {}, expected [C, H, W]", transform,
                    tensor.sizes());
  return *first;
}

/// Makes of them a tensor [C, H, W] that nobody else sees.
Tensor& as_own_tensor(Sample::Field& numbers) {
  if (auto* image = std::get_if<Image>(&numbers.value)) {
    numbers.value = image->tensor();
    numbers.was_image = true;
  } else {
    // It may be a view of the data set.
    numbers.value = std::get<Tensor>(numbers.value).to(kFloat32, false, true);
  }
  return std::get<Tensor>(numbers.value);
}

/// An empty rectangle if no attempt fits.
Rect draw_hole(std::int64_t height, std::int64_t width, const RandomErasingOptions& options,
               Random& random) {
  for (int attempt = 0; attempt < kDrawAttempts; ++attempt) {
    const auto [rows, columns] = DrawnSides(height * width, options.scale, options.ratio, random);
    if (rows >= height || columns >= width) continue;
    return draw_place(height, width, rows, columns, random);
  }
  return {};
}

// --- Mixing batches ------------------------------------------------------------------------------

/// The logarithm of a number from the gamma distribution with the given shape: small shapes give
/// numbers that underflow. Marsaglia and Tsang, "A simple method for generating gamma variables",
/// 2000; shapes below 1 are reduced to shape + 1 as proposed there.
double log_gamma_variate(double shape, Random& random) {
  if (shape < 1) {
    const double boosted = log_gamma_variate(shape + 1, random);
    return boosted + std::log(1 - random.uniform()) / shape;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = random.normal();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double u = 1 - random.uniform();
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return std::log(d * v);
  }
}

/// Logarithms of what gamma distributions of smaller shapes yield overflow.
constexpr double kLeastAlpha = 1e-300;

/// A number from Beta(alpha, alpha).
double draw_lambda(double alpha, Random& random) {
  const double a = log_gamma_variate(alpha, random);
  const double b = log_gamma_variate(alpha, random);
  return 1 / (1 + std::exp(b - a));
}

void check_mixing(std::int64_t classes, double alpha, const char* transform) {
  check<ValueError>(classes >= 1 && alpha > 0 && std::isfinite(alpha),
                    "{}: {} classes and alpha {}, both must be positive", transform, classes,
                    alpha);
  check<ValueError>(alpha >= kLeastAlpha,
                    "{}: alpha is {}, expected at least {}, with which one of two images is taken "
                    "as it is",
                    transform, alpha, kLeastAlpha);
}

/// The images of a batch, each dense, one after the other in memory.
Tensor& images_of(Batch& batch, const char* transform) {
  Tensor& images = batch[0];
  check<DTypeError>(images.dtype() == kFloat32,
                    "{}: images are {}, expected float32; put ToTensor into the loader's "
                    "transform",
                    transform, name_of(images.dtype()));
  check<ShapeError>(images.dim() == 4, "{}: images of size {}, expected [n, C, H, W]", transform,
                    images.sizes());
  if (!images.is_contiguous() && !images.is_contiguous(kChannelsLast)) {
    images = images.contiguous(kChannelsLast);
  }
  return images;
}

/// Makes shares of the classes of labels: lambda of the own, the rest of the one before.
void mix_labels(Batch& batch, std::int64_t classes, double lambda, const char* transform) {
  const std::int64_t n = batch[0].size(0);
  const Tensor labels = batch[1].contiguous();
  check<DTypeError>(labels.dtype() == kInt64, "{}: labels are {}, expected int64", transform,
                    name_of(labels.dtype()));
  check<ShapeError>(labels.dim() == 1 && labels.size(0) == n,
                    "{}: labels of size {} for {} images, expected [n]", transform, labels.sizes(),
                    n);
  const auto* label = labels.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i) {
    check<ValueError>(label[i] >= 0 && label[i] < classes,
                      "{}: label {} of sample {} of the batch lies outside the {} classes",
                      transform, label[i], i, classes);
  }
  const Tensor shares = zeros({n, classes}, kFloat32);
  auto* share = shares.data_ptr<float>();
  for (std::int64_t i = 0; i < n; ++i) {
    share[i * classes + label[i]] += static_cast<float>(lambda);
    share[i * classes + label[(i + n - 1) % n]] += static_cast<float>(1 - lambda);
  }
  batch[1] = shares;
}

struct LastImage {
  std::vector<float> pixels;
};

/// Calls mix(image, before) for every image of the batch, with what stood before it in the batch,
/// the last one for the first; `mix` changes `image`.
template <class Mix>
void with_image_before(const Tensor& images, const Mix& mix) {
  const std::int64_t n = images.size(0);
  if (n == 0) return;
  const std::int64_t elements = images.numel() / n;
  auto* first = images.data_ptr<float>();
  // From the back, so that every image is still as it was when the next one takes it.
  std::vector<float>& last = base::per_thread<LastImage>().pixels;
  last.assign(first + (n - 1) * elements, first + n * elements);
  for (std::int64_t i = n - 1; i > 0; --i) {
    mix(first + i * elements, static_cast<const float*>(first + (i - 1) * elements));
  }
  mix(first, static_cast<const float*>(last.data()));
}

/// The box that CutMix takes from another image: 1 - lambda of the area, less where it would reach
/// beyond the image.
Rect draw_box(std::int64_t height, std::int64_t width, double lambda, Random& random) {
  const std::int64_t x = random.below(width), y = random.below(height);
  const double reach = 0.5 * std::sqrt(1 - lambda);
  const auto half_width = static_cast<std::int64_t>(reach * static_cast<double>(width));
  const auto half_height = static_cast<std::int64_t>(reach * static_cast<double>(height));
  const std::int64_t left = std::max<std::int64_t>(x - half_width, 0);
  const std::int64_t top = std::max<std::int64_t>(y - half_height, 0);
  return {top, left, std::min(y + half_height, height) - top,
          std::min(x + half_width, width) - left};
}

}  // namespace

Normalize::Normalize(std::vector<double> mean, std::vector<double> std)
    : mean_(std::move(mean)), std_(std::move(std)) {
  check<ValueError>(
      !mean_.empty() && mean_.size() == std_.size() &&
          std::all_of(mean_.begin(), mean_.end(), [](double m) { return std::isfinite(m); }) &&
          std::all_of(std_.begin(), std_.end(), [](double s) { return s > 0 && std::isfinite(s); }),
      "Normalize: means [{}] and deviations [{}], expected one of each per channel, all finite, "
      "deviations above 0",
      fmt::join(mean_, ", "), fmt::join(std_, ", "));
}

void Normalize::operator()(Sample& sample, Random&) const {
  Sample::Field& numbers = numbers_of(sample, "Normalize");
  auto* image = std::get_if<Image>(&numbers.value);
  const Tensor tensor = image ? Tensor() : as_own_tensor(numbers);
  const std::int64_t channels = image ? image->channels() : tensor.size(0);
  const auto means = static_cast<std::int64_t>(mean_.size());
  check<ValueError>(means == 1 || means == channels,
                    "Normalize: {} means for an image of {} channels", means, channels);
  const auto of = [&](const std::vector<double>& values, std::int64_t c) {
    return values[means == 1 ? 0 : static_cast<std::size_t>(c)];
  };
  if (!image) {
    for (std::int64_t c = 0; c < channels; ++c) tensor[c].sub_(of(mean_, c)).div_(of(std_, c));
    return;
  }
  double mean[3], std[3];
  for (std::int64_t c = 0; c < channels; ++c) {
    mean[c] = of(mean_, c);
    std[c] = of(std_, c);
  }
  image->normalize(mean, std);
}

RandomErasing::RandomErasing(const RandomErasingOptions& options) : options_(options) {
  check<ValueError>(options.p >= 0 && options.p <= 1,
                    "RandomErasing: probability {}, expected 0 to 1", options.p);
  check<ValueError>(
      options.scale[0] >= 0 && options.scale[0] <= options.scale[1] && options.scale[1] <= 1,
      "RandomErasing: scale [{}, {}], expected two shares of the area in ascending order",
      options.scale[0], options.scale[1]);
  check<ValueError>(
      options.ratio[0] > 0 && options.ratio[0] <= options.ratio[1] &&
          std::isfinite(options.ratio[1]),
      "RandomErasing: ratio [{}, {}], expected two finite values above 0 in ascending order",
      options.ratio[0], options.ratio[1]);
}

void RandomErasing::operator()(Sample& sample, Random& random) const {
  if (!random.chance(options_.p)) return;
  const Tensor& numbers = as_own_tensor(numbers_of(sample, "RandomErasing"));
  const Rect hole = draw_hole(numbers.size(1), numbers.size(2), options_, random);
  auto* data = numbers.data_ptr<float>();
  for (std::int64_t c = 0; c < numbers.size(0); ++c) {
    for (std::int64_t y = hole.top; y < hole.top + hole.height; ++y) {
      for (std::int64_t x = hole.left; x < hole.left + hole.width; ++x) {
        data[c * numbers.stride(0) + y * numbers.stride(1) + x * numbers.stride(2)] =
            static_cast<float>(options_.random_value ? random.normal() : options_.value);
      }
    }
  }
}

MixUp::MixUp(std::int64_t classes, double alpha) : classes_(classes), alpha_(alpha) {
  check_mixing(classes, alpha, "MixUp");
}

void MixUp::operator()(Batch& batch, Random& random) const {
  const Tensor& images = images_of(batch, "MixUp");
  const double lambda = draw_lambda(alpha_, random);
  mix_labels(batch, classes_, lambda, "MixUp");
  const auto own = static_cast<float>(lambda), other = static_cast<float>(1 - lambda);
  const std::int64_t elements = images.numel() / std::max<std::int64_t>(images.size(0), 1);
  with_image_before(images, [&](float* __restrict image, const float* __restrict before) {
    for (std::int64_t i = 0; i < elements; ++i) image[i] = own * image[i] + other * before[i];
  });
}

CutMix::CutMix(std::int64_t classes, double alpha) : classes_(classes), alpha_(alpha) {
  check_mixing(classes, alpha, "CutMix");
}

void CutMix::operator()(Batch& batch, Random& random) const {
  const Tensor& images = images_of(batch, "CutMix");
  const std::int64_t channels = images.size(1), height = images.size(2), width = images.size(3);
  check<ShapeError>(height > 0 && width > 0, "CutMix: images of size {} have no pixels",
                    images.sizes());
  const Rect box = draw_box(height, width, draw_lambda(alpha_, random), random);
  const auto area = static_cast<double>(box.height * box.width);
  mix_labels(batch, classes_, 1 - area / static_cast<double>(height * width), "CutMix");
  // A pixel is one value of each of several planes, or all its channels in one plane.
  const bool inner = !images.is_contiguous();
  const std::int64_t planes = inner ? 1 : channels, pixel = inner ? channels : 1;
  with_image_before(images, [&](float* image, const float* before) {
    for (std::int64_t row = 0; row < planes * box.height; ++row) {
      const std::int64_t y = row / box.height * height + box.top + row % box.height;
      const std::int64_t at = (y * width + box.left) * pixel;
      std::copy_n(before + at, box.width * pixel, image + at);
    }
  });
}

}  // namespace facula::data::transforms
