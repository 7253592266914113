#include <facula/models.h>
#include <facula/nn/functional.h>
#include <facula/nn/init.h>

namespace facula::models {

namespace F = nn::functional;

namespace {

constexpr std::int64_t kStem = 32, kFeatures = 1280;

struct Stage {
  std::int64_t expansion, channels;
  int blocks;
  std::int64_t stride, cifar_stride;  // of the first block
};
constexpr Stage kStages[] = {
    {1, 16, 1, 1, 1}, {6, 24, 2, 2, 1},  {6, 32, 3, 2, 2},  {6, 64, 4, 2, 2},
    {6, 96, 3, 1, 1}, {6, 160, 3, 2, 2}, {6, 320, 1, 1, 1},
};

nn::Sequential conv_bn_relu6(const nn::Conv2dOptions& options) {
  return nn::Sequential(nn::Conv2d(options), nn::BatchNorm2d({.features = options.out}),
                        nn::ReLU6());
}

nn::Conv2dOptions conv1x1(std::int64_t in, std::int64_t out) {
  return {.in = in, .out = out, .kernel = 1, .bias = false};
}

nn::Conv2dOptions depthwise3x3(std::int64_t channels, std::int64_t stride) {
  return {.in = channels,
          .out = channels,
          .kernel = 3,
          .stride = stride,
          .padding = 1,
          .groups = channels,
          .bias = false};
}

nn::Conv2dOptions stem(std::int64_t stride) {
  return {.in = 3, .out = kStem, .kernel = 3, .stride = stride, .padding = 1, .bias = false};
}

void initialize(nn::Module& module) {
  if (auto* conv = dynamic_cast<nn::Conv2d*>(&module)) {
    nn::init::kaiming_normal_(conv->weight, {.mode = nn::init::FanMode::fan_out});
  } else if (auto* linear = dynamic_cast<nn::Linear*>(&module)) {
    nn::init::normal_(linear->weight, 0, 0.01);
    nn::init::zeros_(linear->bias);
  }
}

}  // namespace

InvertedResidual::InvertedResidual(std::int64_t in, std::int64_t out, std::int64_t stride,
                                   std::int64_t expansion, nn::Place place)
    : Module(place), shortcut_(stride == 1 && in == out) {
  const std::int64_t hidden = in * expansion;
  if (expansion != 1) conv.push_back(conv_bn_relu6(conv1x1(in, hidden)));
  conv.push_back(conv_bn_relu6(depthwise3x3(hidden, stride)));
  conv.push_back(nn::Conv2d(conv1x1(hidden, out)));
  conv.push_back(nn::BatchNorm2d({.features = out}));
}

Tensor InvertedResidual::forward(const Tensor& input) const {
  return shortcut_ ? input + conv(input) : conv(input);
}

MobileNetV2::MobileNetV2(MobileNetV2Options options, nn::Place place) : Module(place) {
  features.push_back(conv_bn_relu6(stem(options.cifar_strides ? 1 : 2)));
  std::int64_t channels = kStem;
  for (const Stage& stage : kStages) {
    for (int i = 0; i < stage.blocks; ++i) {
      const std::int64_t first = options.cifar_strides ? stage.cifar_stride : stage.stride;
      features.push_back(
          InvertedResidual(channels, stage.channels, i == 0 ? first : 1, stage.expansion));
      channels = stage.channels;
    }
  }
  features.push_back(conv_bn_relu6(conv1x1(channels, kFeatures)));
  classifier.push_back(nn::Dropout({.p = 0.2}));
  classifier.push_back(nn::Linear({.in = kFeatures, .out = options.num_classes}));
  apply(initialize);
}

Tensor MobileNetV2::forward(const Tensor& images) const {
  return classifier(F::flatten(F::adaptive_avg_pool2d(features(images), 1), 1));
}

MobileNetV2 mobilenet_v2(MobileNetV2Options options, nn::Place place) {
  return MobileNetV2(options, place);
}

}  // namespace facula::models
