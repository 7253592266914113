#include <facula/models.h>
#include <facula/nn/functional.h>
#include <facula/ops.h>

namespace facula::models {

namespace F = nn::functional;

Net::Net(ModelOptions options, nn::Place place)
    : Module(place), fc3(*this, "fc3", {.in = 84, .out = options.num_classes}) {}

Tensor Net::forward(const Tensor& images) const {
  Tensor x = pool(F::relu(conv1(images)));
  x = pool(F::relu(conv2(x)));
  x = F::flatten(x, 1);
  x = F::relu(fc1(x));
  x = F::relu(fc2(x));
  return fc3(x);
}

MnistCnn::MnistCnn(ModelOptions options, nn::Place place)
    : Module(place), fc2(*this, "fc2", {.in = 128, .out = options.num_classes}) {}

Tensor MnistCnn::forward(const Tensor& images) const {
  // The second convolution, nearly all of the work, is faster in channels_last.
  Tensor x = F::relu(conv1(to_copy(images, {}, "channels_last")));
  x = F::relu(conv2(x));
  x = F::flatten(F::max_pool2d(x, 2, 2), 1);
  return fc2(F::relu(fc1(x)));
}

Mlp::Mlp(ModelOptions options, nn::Place place)
    : Module(place), output(*this, "4", {.in = 512, .out = options.num_classes}) {}

Tensor Mlp::forward(const Tensor& images) const {
  const Tensor x = images.dim() > 2 ? F::flatten(images, 1) : images;
  return output(F::relu(hidden2(F::relu(hidden1(x)))));
}

}  // namespace facula::models
