#include <facula/models.h>
#include <facula/nn/functional.h>
#include <facula/nn/init.h>

namespace facula::models {

namespace F = nn::functional;

namespace {

constexpr std::int64_t kImageChannels = 3;
constexpr std::int64_t kFeatureSize = 7;  // height and width, averaged to this for ImageNet
constexpr std::int64_t kHidden = 4096;

nn::AnyModule make_classifier(std::int64_t features, const VggOptions& options) {
  if (options.cifar_classifier) {
    return nn::Linear({.in = features, .out = options.num_classes});
  }
  return nn::Sequential(nn::Linear({.in = features * kFeatureSize * kFeatureSize, .out = kHidden}),
                        nn::ReLU(), nn::Dropout(), nn::Linear({.in = kHidden, .out = kHidden}),
                        nn::ReLU(), nn::Dropout(),
                        nn::Linear({.in = kHidden, .out = options.num_classes}));
}

void initialize(nn::Module& module) {
  if (auto* conv = dynamic_cast<nn::Conv2d*>(&module)) {
    nn::init::kaiming_normal_(conv->weight, {.mode = nn::init::FanMode::fan_out,
                                             .nonlinearity = nn::init::Nonlinearity::relu});
    nn::init::zeros_(conv->bias);
  } else if (auto* linear = dynamic_cast<nn::Linear*>(&module)) {
    nn::init::normal_(linear->weight, 0, 0.01);
    nn::init::zeros_(linear->bias);
  }
}

}  // namespace

Vgg::Vgg(const std::vector<std::int64_t>& layers, VggOptions options, nn::Place place)
    : Module(place), cifar_classifier_(options.cifar_classifier) {
  std::int64_t channels = kImageChannels;
  for (std::int64_t out : layers) {
    if (out == 0) {
      features.push_back(nn::MaxPool2d({.kernel = 2}));
      continue;
    }
    features.push_back(nn::Conv2d({.in = channels, .out = out, .kernel = 3, .padding = 1}));
    if (options.batch_norm) features.push_back(nn::BatchNorm2d({.features = out}));
    features.push_back(nn::ReLU());
    channels = out;
  }
  classifier = make_classifier(channels, options);
  apply(initialize);
}

Tensor Vgg::forward(const Tensor& images) const {
  Tensor x = features(images);
  if (!cifar_classifier_) x = F::adaptive_avg_pool2d(x, kFeatureSize);
  return classifier(F::flatten(x, 1));
}

Vgg vgg11(VggOptions options, nn::Place place) {
  return Vgg({64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0}, options, place);
}

Vgg vgg11_bn(VggOptions options, nn::Place place) {
  options.batch_norm = true;
  return vgg11(options, place);
}

}  // namespace facula::models
