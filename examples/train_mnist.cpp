// Trains a convolutional network on Fashion-MNIST, with the training loop written out.
// (facula/train.h has one with validation, progress and metrics.)
//
//   example_train_mnist [FOLDER] [--quick]
//
// FOLDER has the four IDX files; Debian's package dataset-fashion-mnist is the default. Without any
// data, generated images take their place.
#include <cstdio>
#include <cstring>
#include <numeric>
#include <vector>

#include <facula/data.h>
#include <facula/error.h>
#include <facula/nn.h>
#include <facula/optim.h>

using namespace facula;

// [quote]
struct Cnn : nn::Module {
  nn::Conv2d conv1{*this, "conv1", {.in = 1, .out = 16, .kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d norm1{*this, "norm1", {.features = 16}};
  nn::Conv2d conv2{*this, "conv2", {.in = 16, .out = 32, .kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d norm2{*this, "norm2", {.features = 32}};
  nn::MaxPool2d pool{*this, "pool", {.kernel = 2}};
  nn::Linear fc{*this, "fc", {.in = 32 * 7 * 7, .out = 10}};

  Tensor forward(const Tensor& images) const override {
    Tensor x = pool(relu(norm1(conv1(images))));
    x = pool(relu(norm2(conv2(x))));
    return fc(x.flatten(1));
  }
};

void train_cnn(const data::DatasetPtr& images, int epochs) {
  Cnn model;
  optim::AdamW optimizer(model.parameters(), {.lr = 2e-3});
  data::DataLoader loader(
      images, {.batch_size = 128, .shuffle = true, .transform = data::transforms::ToTensor()});
  for (int epoch = 0; epoch < epochs; ++epoch) {
    double total = 0;
    for (auto& [input, target] : loader.epoch(epoch)) {
      Tensor loss = nn::functional::cross_entropy(model(input), target);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      total += loss.item();
    }
    std::printf("epoch %d: loss %.4f\n", epoch + 1, total / static_cast<double>(loader.size()));
  }
}
// [quote]

// Images whose brightest row tells the class.
data::DatasetPtr generated() {
  const std::int64_t count = 2560;
  const Tensor labels = randint(0, 10, {count});
  Tensor images = randint(0, 100, {count, 1, 28, 28}).to(kUInt8);
  for (std::int64_t i = 0; i < count; ++i) {
    images[i][0][2 * labels[i].item<std::int64_t>() + 4].fill_(255);
  }
  return data::from_tensors(images, labels, 10);
}

int main(int argc, char** argv) {
  bool quick = false;
  const char* folder = "/usr/share/datasets/fashion-mnist";
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      quick = true;
    } else {
      folder = argv[i];
    }
  }
  manual_seed(0);
  data::DatasetPtr images;
  try {
    images = data::fashion_mnist(folder);
  } catch (const IoError& error) {
    std::printf("%s\nTraining on generated images instead.\n", error.what());
    images = generated();
  }
  if (quick) {
    std::vector<std::int64_t> first(2560);
    std::iota(first.begin(), first.end(), std::int64_t{0});
    images = data::subset(images, first);
  }
  train_cnn(images, quick ? 1 : 3);
}
