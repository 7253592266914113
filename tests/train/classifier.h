// A classifier of small images, and images for it.
#pragma once

#include <cstdint>

#include <facula/data.h>
#include <facula/generator.h>
#include <facula/nn/layers.h>

namespace facula::train {

inline constexpr std::int64_t kClasses = 4;

/// Noise with one bright row, which tells the class.
inline data::DatasetPtr rows(std::int64_t count) {
  manual_seed(7);
  const Tensor labels = randint(0, kClasses, {count});
  const Tensor images = randint(0, 60, {count, 1, 4, 4}).to(kUInt8);
  for (std::int64_t i = 0; i < count; ++i) {
    images[i][0][labels[i].item<std::int64_t>()].fill_(250);
  }
  return data::from_tensors(images, labels, kClasses);
}

struct Classifier : nn::Module {
  nn::Linear hidden{*this, "hidden", {.in = 16, .out = 16}};
  nn::Dropout dropout{*this, "dropout", {.p = 0.1}};
  nn::Linear output{*this, "output", {.in = 16, .out = kClasses}};

  Tensor forward(const Tensor& images) const override {
    return output(dropout(relu(hidden(images.flatten(1)))));
  }
};

inline data::DataLoader loader_of(const data::DatasetPtr& set) {
  return data::DataLoader(
      set, {.batch_size = 16, .shuffle = true, .transform = data::transforms::ToTensor()});
}

}  // namespace facula::train
