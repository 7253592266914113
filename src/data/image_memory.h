// Labelled images that are held in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "data/loading.h"

namespace facula::data {

/// Images of one size. A sample refers to the pixels of the set and costs no allocation.
class ImageMemory final : public Loading<ImageDataset> {
 public:
  /// `images` is uint8 [N, C, H, W], stored channels_last; one label for each.
  ImageMemory(ImageSetInfo info, Tensor images, std::vector<std::int64_t> labels);

  const ImageSetInfo& info() const override { return info_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  void load(std::int64_t index, Sample& sample) const override;
  void prefetch(std::int64_t index) const override;

 private:
  ImageSetInfo info_;
  Tensor images_;
  std::vector<std::int64_t> labels_;
  const std::uint8_t* pixels_;
  std::int64_t height_, width_, channels_;
};

}  // namespace facula::data
