// A bit of everything that programs do, for the places where they do it least expectedly.
#pragma once

#include <cmath>
#include <cstdint>

#include <facula/autograd.h>
#include <facula/data.h>
#include <facula/models.h>
#include <facula/nn.h>
#include <facula/optim.h>

namespace facula {

/// Trains a convolutional network, with augmentation and background threads, for three batches.
/// Returns the last loss.
inline double everyday_work() {
  namespace T = data::transforms;
  const auto images =
      data::from_tensors(randint(0, 256, {24, 1, 28, 28}).to(kUInt8), arange(24).remainder(10), 10);
  const data::DataLoader loader(
      images, {.batch_size = 8,
               .shuffle = true,
               .transform = T::Compose({T::RandomResizedCrop({.size = 28}), T::ToTensor()}),
               .num_workers = 2});
  const nn::AnyModule model = models::create("mnist-cnn", 10);
  optim::SGD optimizer(model->parameters(), {.lr = 0.01, .momentum = 0.9});
  double last = std::nan("");
  for (auto& [input, target] : loader.epoch(0)) {
    const Tensor loss = nn::functional::cross_entropy(model(input), target);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
  }
  return last;
}

}  // namespace facula
