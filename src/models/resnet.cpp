#include <facula/models.h>
#include <facula/nn/functional.h>
#include <facula/nn/init.h>

#include "base/check.h"

namespace facula::models {

namespace F = nn::functional;

namespace {

nn::Conv2dOptions conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return {.in = in, .out = out, .kernel = 3, .stride = stride, .padding = 1, .bias = false};
}

nn::Conv2dOptions stem(bool cifar) {
  if (cifar) return conv3x3(3, 64, 1);
  return {.in = 3, .out = 64, .kernel = 7, .stride = 2, .padding = 3, .bias = false};
}

template <class Block>
void add_stage(nn::Sequential& stage, int blocks, std::int64_t in, std::int64_t out) {
  check<ValueError>(blocks >= 1, "ResNet: a stage of {} blocks, needs at least 1", blocks);
  for (int i = 0; i < blocks; ++i) {
    stage.push_back(i == 0 ? Block(in, out, in == out ? 1 : 2) : Block(out, out, 1));
  }
}

}  // namespace

BasicBlock::BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride, nn::Place place)
    : Module(place),
      conv1(*this, "conv1", conv3x3(in, out, stride)),
      bn1(*this, "bn1", {.features = out}),
      conv2(*this, "conv2", conv3x3(out, out, 1)),
      bn2(*this, "bn2", {.features = out}),
      downsample(*this, "downsample") {
  if (stride == 1 && in == out) return;
  downsample.push_back(
      nn::Conv2d({.in = in, .out = out, .kernel = 1, .stride = stride, .bias = false}));
  downsample.push_back(nn::BatchNorm2d({.features = out}));
}

Tensor BasicBlock::forward(const Tensor& input) const {
  const Tensor x = F::relu(bn1(conv1(input)));
  return F::relu(bn2(conv2(x)) + downsample(input));
}

ResNet::ResNet(const std::vector<int>& blocks, ResNetOptions options, nn::Place place)
    : Module(place),
      conv1(*this, "conv1", stem(options.cifar_stem)),
      fc(*this, "fc", {.in = 512, .out = options.num_classes}),
      cifar_stem_(options.cifar_stem) {
  check<ValueError>(blocks.size() == 4, "ResNet: expected the blocks of 4 stages, got {}",
                    blocks.size());
  add_stage<BasicBlock>(layer1, blocks[0], 64, 64);
  add_stage<BasicBlock>(layer2, blocks[1], 64, 128);
  add_stage<BasicBlock>(layer3, blocks[2], 128, 256);
  add_stage<BasicBlock>(layer4, blocks[3], 256, 512);
  apply([](nn::Module& module) {
    if (auto* conv = dynamic_cast<nn::Conv2d*>(&module)) {
      nn::init::kaiming_normal_(conv->weight, {.mode = nn::init::FanMode::fan_out,
                                               .nonlinearity = nn::init::Nonlinearity::relu});
    }
  });
}

Tensor ResNet::forward(const Tensor& images) const {
  Tensor x = F::relu(bn1(conv1(images)));
  if (!cifar_stem_) x = F::max_pool2d(x, 3, 2, 1);
  x = layer4(layer3(layer2(layer1(x))));
  return fc(F::flatten(F::adaptive_avg_pool2d(x, 1), 1));
}

ResNet resnet18(ResNetOptions options, nn::Place place) {
  return ResNet({2, 2, 2, 2}, options, place);
}

ResNet resnet34(ResNetOptions options, nn::Place place) {
  return ResNet({3, 4, 6, 3}, options, place);
}

// --- For CIFAR -----------------------------------------------------------------------------------

CifarBlock::CifarBlock(std::int64_t in, std::int64_t out, std::int64_t stride, nn::Place place)
    : Module(place),
      conv1(*this, "conv1", conv3x3(in, out, stride)),
      bn1(*this, "bn1", {.features = out}),
      conv2(*this, "conv2", conv3x3(out, out, 1)),
      bn2(*this, "bn2", {.features = out}),
      stride_(stride),
      padding_((out - in) / 2) {
  check<ValueError>(in <= out && (out - in) % 2 == 0,
                    "CifarBlock: {} to {} channels; those that are added are zeros, equally many "
                    "before and after the others",
                    in, out);
}

Tensor CifarBlock::forward(const Tensor& input) const {
  const Tensor x = F::relu(bn1(conv1(input)));
  Tensor shortcut = input;
  if (stride_ != 1) {
    const Slice every({}, {}, stride_);
    shortcut = input.index({Slice(), Slice(), every, every});
  }
  if (padding_ != 0) {
    const Tensor none =
        zeros({shortcut.size(0), padding_, shortcut.size(2), shortcut.size(3)}, shortcut.options());
    shortcut = cat({none, shortcut, none}, 1);
  }
  return F::relu(bn2(conv2(x)) + shortcut);
}

CifarResNet::CifarResNet(int blocks, ModelOptions options, nn::Place place)
    : Module(place), linear(*this, "linear", {.in = 64, .out = options.num_classes}) {
  add_stage<CifarBlock>(layer1, blocks, 16, 16);
  add_stage<CifarBlock>(layer2, blocks, 16, 32);
  add_stage<CifarBlock>(layer3, blocks, 32, 64);
  apply([](nn::Module& module) {
    if (auto* conv = dynamic_cast<nn::Conv2d*>(&module)) nn::init::kaiming_normal_(conv->weight);
    if (auto* dense = dynamic_cast<nn::Linear*>(&module)) nn::init::kaiming_normal_(dense->weight);
  });
}

Tensor CifarResNet::forward(const Tensor& images) const {
  Tensor x = F::relu(bn1(conv1(images)));
  x = layer3(layer2(layer1(x)));
  return linear(F::flatten(F::adaptive_avg_pool2d(x, 1), 1));
}

CifarResNet resnet20(ModelOptions options, nn::Place place) {
  return CifarResNet(3, options, place);
}
CifarResNet resnet32(ModelOptions options, nn::Place place) {
  return CifarResNet(5, options, place);
}
CifarResNet resnet44(ModelOptions options, nn::Place place) {
  return CifarResNet(7, options, place);
}
CifarResNet resnet56(ModelOptions options, nn::Place place) {
  return CifarResNet(9, options, place);
}
CifarResNet resnet110(ModelOptions options, nn::Place place) {
  return CifarResNet(18, options, place);
}

}  // namespace facula::models
