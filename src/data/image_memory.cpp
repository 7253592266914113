#include "data/image_memory.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "data/labelled_image.h"

namespace facula::data {

ImageMemory::ImageMemory(ImageSetInfo info, Tensor images, std::vector<std::int64_t> labels)
    : info_(std::move(info)),
      images_(std::move(images)),
      labels_(std::move(labels)),
      pixels_(images_.data_ptr<std::uint8_t>()),
      height_(images_.size(2)),
      width_(images_.size(3)),
      channels_(images_.size(1)) {
  info_.channels = channels_;
  info_.height = height_;
  info_.width = width_;
}

void ImageMemory::load(std::int64_t index, Sample& sample) const {
  check_index(index, size(), info_.name.c_str());
  const std::uint8_t* pixels = pixels_ + index * height_ * width_ * channels_;
  set_labelled_image(sample, Image(pixels, height_, width_, channels_),
                     labels_[static_cast<std::size_t>(index)]);
}

void ImageMemory::prefetch(std::int64_t index) const {
  constexpr std::int64_t kLine = 64, kMost = 64 * kLine;  // more than the next one would push out
  const std::int64_t bytes = height_ * width_ * channels_;
  const std::uint8_t* pixels = pixels_ + index * bytes;
  __builtin_prefetch(labels_.data() + index);
  for (std::int64_t i = 0; i < std::min(bytes, kMost); i += kLine) __builtin_prefetch(pixels + i);
}

ImageDatasetPtr from_tensors(const Tensor& images, const Tensor& labels, std::int64_t classes) {
  check<DTypeError>(images.dtype() == kUInt8 && labels.dtype() == kInt64,
                    "from_tensors: images are {} and labels {}, expected uint8 and int64; convert "
                    "them with to()",
                    name_of(images.dtype()), name_of(labels.dtype()));
  check<ShapeError>(images.dim() == 4 && labels.dim() == 1 && images.size(0) == labels.size(0),
                    "from_tensors: images of size {} and labels of size {}, expected [N, C, H, W] "
                    "and [N]",
                    images.sizes(), labels.sizes());
  const std::int64_t channels = images.size(1);
  check<ShapeError>((channels == 1 || channels == 3) && images.size(2) > 0 && images.size(3) > 0,
                    "from_tensors: images of size {}, expected [N, C, H, W] with C 1 or 3 and at "
                    "least one pixel",
                    images.sizes());
  auto values = labels.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    check<ValueError>(values[i] >= 0 && values[i] < classes,
                      "from_tensors: label {} of sample {} is out of range, expected 0 to {}",
                      values[i], i, classes - 1);
  }
  const std::vector<double> half(static_cast<std::size_t>(channels), 0.5);
  ImageSetInfo info{.name = "tensors",
                    .classes = classes,
                    .class_names = {},
                    .channels = channels,
                    .mean = half,
                    .std = half};
  return std::make_shared<ImageMemory>(std::move(info), images.cpu().contiguous(kChannelsLast),
                                       std::move(values));
}

}  // namespace facula::data
