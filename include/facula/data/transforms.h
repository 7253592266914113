// Transforms with the names and meanings of torchvision's. Each is a callable on a sample and
// changes its first image; options are given as TYPE({.field = value}). Geometry works on pixels,
// even where it stands after ToTensor: a resized image has whole levels, and what lies beyond the
// border has the level `fill`, not the number, before Normalize.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <facula/data/sample.h>

namespace facula::data::transforms {

/// One transform after the other.
class FACULA_API Compose {
 public:
  Compose(std::initializer_list<Transform> transforms) : transforms_(transforms) {}
  explicit Compose(std::vector<Transform> transforms) : transforms_(std::move(transforms)) {}
  void operator()(Sample& sample, Random& random) const;

 private:
  std::vector<Transform> transforms_;
};

/// What a number is drawn from: {low, high}, or one number x for [middle - x, middle + x]; options
/// say what lies in the middle.
struct Range {
  Range(double reach) : low(-reach), high(reach), around_middle(true) {}
  Range(double least, double most) : low(least), high(most) {}

  double low, high;
  bool around_middle = false;
};

/// A level for all channels, or one for each of RGB.
struct Fill {
  Fill(std::uint8_t level) : levels{level, level, level} {}
  Fill(std::uint8_t red, std::uint8_t green, std::uint8_t blue)
      : levels{red, green, blue}, colored(true) {}

  std::array<std::uint8_t, 3> levels;
  bool colored = false;
};

/// To float32 in [0, 1] and [C, H, W].
struct FACULA_API ToTensor {
  void operator()(Sample& sample, Random& random) const;
};

/// (x - mean) / std per channel; one value serves all channels. After ToTensor it costs nothing
/// extra. In a sample without an image it changes the first tensor, float32 [C, H, W].
class FACULA_API Normalize {
 public:
  /// Throws ValueError for lists of different lengths, means that are not finite and deviations
  /// that are not finite and above 0.
  Normalize(std::vector<double> mean, std::vector<double> std);
  void operator()(Sample& sample, Random& random) const;

 private:
  std::vector<double> mean_, std_;
};

struct ResizeOptions {
  /// The shorter side gets this size, the other keeps the shape; or both sides {height, width}.
  std::int64_t size = 0, width = 0;
  Interpolation interpolation = Interpolation::bilinear;
};
class FACULA_API Resize {
 public:
  explicit Resize(const ResizeOptions& options);
  void operator()(Sample& sample, Random& random) const;

 private:
  ResizeOptions options_;
};

/// The middle size x size (or size x width) pixels, black where the image ends.
class FACULA_API CenterCrop {
 public:
  explicit CenterCrop(std::int64_t size, std::int64_t width = 0);
  void operator()(Sample& sample, Random& random) const;

 private:
  std::int64_t height_, width_;
};

struct RandomCropOptions {
  std::int64_t size = 0, width = 0;  ///< width 0: a square
  std::int64_t padding = 0;          ///< on each side, before cropping
  PaddingMode padding_mode = PaddingMode::constant;
  std::uint8_t fill = 0;
};
class FACULA_API RandomCrop {
 public:
  explicit RandomCrop(const RandomCropOptions& options);
  void operator()(Sample& sample, Random& random) const;

 private:
  RandomCropOptions options_;
};

struct RandomResizedCropOptions {
  std::int64_t size = 0, width = 0;
  std::array<double, 2> scale = {0.08, 1.0};         ///< share of the area
  std::array<double, 2> ratio = {3.0 / 4, 4.0 / 3};  ///< width / height
  Interpolation interpolation = Interpolation::bilinear;
};
/// Of a JPEG file, only the region that was drawn is decoded.
class FACULA_API RandomResizedCrop {
 public:
  explicit RandomResizedCrop(const RandomResizedCropOptions& options);
  void operator()(Sample& sample, Random& random) const;

 private:
  RandomResizedCropOptions options_;
};

class FACULA_API RandomHorizontalFlip {
 public:
  explicit RandomHorizontalFlip(double p = 0.5);
  void operator()(Sample& sample, Random& random) const;

 private:
  double p_;
};

class FACULA_API RandomVerticalFlip {
 public:
  explicit RandomVerticalFlip(double p = 0.5);
  void operator()(Sample& sample, Random& random) const;

 private:
  double p_;
};

/// Grey as ITU-R 601 luma, in 1 or 3 equal channels.
class FACULA_API Grayscale {
 public:
  explicit Grayscale(std::int64_t channels = 1);
  void operator()(Sample& sample, Random& random) const;

 private:
  std::int64_t channels_;
};

/// Factors are drawn around 1, not below 0, and the shift of the hue around 0 (of a turn, within
/// [-0.5, 0.5]); those that have a range other than the middle are applied in random order. Works
/// on pixels, before ToTensor.
struct ColorJitterOptions {
  Range brightness = 0, contrast = 0, saturation = 0, hue = 0;
};
class FACULA_API ColorJitter {
 public:
  /// Throws ValueError for what is not finite, not in ascending order or out of bounds.
  explicit ColorJitter(const ColorJitterOptions& options);
  void operator()(Sample& sample, Random& random) const;

 private:
  std::array<std::array<double, 2>, 4> ranges_;
};

/// Turns counter-clockwise by an angle drawn around 0. Works on pixels, before ToTensor.
struct RandomRotationOptions {
  Range degrees = 0;
  Interpolation interpolation = Interpolation::nearest;
  /// The image becomes as large as the turned one needs, which differs from sample to sample;
  /// otherwise its size stays and corners are lost.
  bool expand = false;
  /// About which point: {x, y} in pixels from the upper left corner; none: the middle.
  std::optional<std::array<double, 2>> center = {};
  /// Where the image ends. One of three levels is for RGB images only.
  Fill fill = 0;
};
class FACULA_API RandomRotation {
 public:
  /// Throws ValueError for what is not finite, nor its width, or not in ascending order.
  explicit RandomRotation(const RandomRotationOptions& options);
  void operator()(Sample& sample, Random& random) const;

 private:
  RandomRotationOptions options_;
};

/// Overwrites a rectangle with a value (after ToTensor, on the numbers); in a sample without an
/// image, one of the first tensor, float32 [C, H, W]. An image becomes such a tensor, which
/// Normalize and RandomErasing still take for an image.
struct RandomErasingOptions {
  double p = 0.5;
  std::array<double, 2> scale = {0.02, 0.33}, ratio = {0.3, 3.3};
  double value = 0;
  bool random_value = false;  ///< standard normal numbers instead of `value`
};
class FACULA_API RandomErasing {
 public:
  explicit RandomErasing(const RandomErasingOptions& options = {});
  void operator()(Sample& sample, Random& random) const;

 private:
  RandomErasingOptions options_;
};

/// Batch transforms: mix pairs of samples, the second of each pair being the batch rotated by one;
/// labels (int64 [n]) become shares of the classes (float32 [n, classes]). lambda is drawn from
/// Beta(alpha, alpha) for each batch. Throw ValueError for less than one class, and for an alpha
/// that is not finite or below 1e-300.
class FACULA_API MixUp {
 public:
  MixUp(std::int64_t classes, double alpha = 1.0);
  void operator()(Batch& batch, Random& random) const;

 private:
  std::int64_t classes_;
  double alpha_;
};
class FACULA_API CutMix {
 public:
  CutMix(std::int64_t classes, double alpha = 1.0);
  void operator()(Batch& batch, Random& random) const;

 private:
  std::int64_t classes_;
  double alpha_;
};

/// The usual chains by name, with the mean and deviation given: "none" (ToTensor), "mnist" (and
/// Normalize), "cifar-train" (RandomCrop(32, padding 4), RandomHorizontalFlip),
/// "imagenet-train" (RandomResizedCrop(224), RandomHorizontalFlip), "imagenet-val" (Resize(256),
/// CenterCrop(224)), the last three followed by ToTensor and Normalize. Throws ValueError listing
/// the names.
FACULA_API Transform by_name(const std::string& name, const std::vector<double>& mean,
                             const std::vector<double>& std);
FACULA_API const std::vector<std::string>& names();

}  // namespace facula::data::transforms
