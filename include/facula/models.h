// Ready-made models. Parameters have the names that PyTorch's and torchvision's models give them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <facula/nn/containers.h>
#include <facula/nn/layers.h>

namespace facula::models {

struct ModelOptions {
  std::int64_t num_classes = 10;
};

/// The CIFAR-10 network of PyTorch's tutorials: [N, 3, 32, 32] -> [N, num_classes].
class FACULA_API Net : public nn::Module {
 public:
  explicit Net(ModelOptions options = {}, nn::Place place = {});
  Tensor forward(const Tensor& images) const override;

  nn::Conv2d conv1{*this, "conv1", {.in = 3, .out = 6, .kernel = 5}};
  nn::MaxPool2d pool{*this, "pool", {.kernel = 2}};
  nn::Conv2d conv2{*this, "conv2", {.in = 6, .out = 16, .kernel = 5}};
  nn::Linear fc1{*this, "fc1", {.in = 16 * 5 * 5, .out = 120}};
  nn::Linear fc2{*this, "fc2", {.in = 120, .out = 84}};
  nn::Linear fc3;
};

/// Two convolutions and two linear layers for MNIST: [N, 1, 28, 28] -> [N, num_classes].
class FACULA_API MnistCnn : public nn::Module {
 public:
  explicit MnistCnn(ModelOptions options = {}, nn::Place place = {});
  Tensor forward(const Tensor& images) const override;

  nn::Conv2d conv1{*this, "conv1", {.in = 1, .out = 32, .kernel = 3}};
  nn::Conv2d conv2{*this, "conv2", {.in = 32, .out = 64, .kernel = 3}};
  nn::Linear fc1{*this, "fc1", {.in = 64 * 12 * 12, .out = 128}};
  nn::Linear fc2;
};

/// 784-512-512-num_classes: [N, 784] or [N, 1, 28, 28] -> [N, num_classes].
class FACULA_API Mlp : public nn::Module {
 public:
  explicit Mlp(ModelOptions options = {}, nn::Place place = {});
  Tensor forward(const Tensor& images) const override;

  // Named as in nn.Sequential(Linear, ReLU, Linear, ReLU, Linear).
  nn::Linear hidden1{*this, "0", {.in = 784, .out = 512}};
  nn::Linear hidden2{*this, "2", {.in = 512, .out = 512}};
  nn::Linear output;
};

struct ResNetOptions {
  std::int64_t num_classes = 1000;
  /// One 3x3 convolution without pooling instead of 7x7 with stride 2 and pooling: for 32x32
  /// images.
  bool cifar_stem = false;
};

/// Two 3x3 convolutions beside a shortcut.
class FACULA_API BasicBlock : public nn::Module {
 public:
  explicit BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride, nn::Place place = {});
  Tensor forward(const Tensor& input) const override;

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  /// A strided 1x1 convolution with batch norm where the shapes differ, else empty.
  nn::Sequential downsample;
};

/// Residual network of basic blocks (He et al., 2016), torchvision's variant:
/// [N, 3, H, W] -> [N, num_classes].
class FACULA_API ResNet : public nn::Module {
 public:
  /// `blocks` in each of the four stages.
  ResNet(const std::vector<int>& blocks, ResNetOptions options, nn::Place place = {});
  Tensor forward(const Tensor& images) const override;

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1{*this, "bn1", {.features = 64}};
  nn::Sequential layer1{*this, "layer1"};
  nn::Sequential layer2{*this, "layer2"};
  nn::Sequential layer3{*this, "layer3"};
  nn::Sequential layer4{*this, "layer4"};
  nn::Linear fc;

 private:
  bool cifar_stem_;
};

FACULA_API ResNet resnet18(ResNetOptions options = {}, nn::Place place = {});
FACULA_API ResNet resnet34(ResNetOptions options = {}, nn::Place place = {});

/// Two 3x3 convolutions beside a shortcut without parameters: where the shapes differ, every second
/// pixel of every second row, with channels of zeros before and behind (option A of He et al.).
class FACULA_API CifarBlock : public nn::Module {
 public:
  explicit CifarBlock(std::int64_t in, std::int64_t out, std::int64_t stride, nn::Place place = {});
  Tensor forward(const Tensor& input) const override;

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;

 private:
  std::int64_t stride_, padding_;
};

/// The residual networks for CIFAR of He et al. (2016), section 4.2: three stages with 16, 32 and
/// 64 channels, [N, 3, 32, 32] -> [N, num_classes]. Parameters are named as in
/// https://github.com/akamaster/pytorch_resnet_cifar10.
class FACULA_API CifarResNet : public nn::Module {
 public:
  /// `blocks` in each stage: 6 * blocks + 2 layers.
  explicit CifarResNet(int blocks, ModelOptions options = {}, nn::Place place = {});
  Tensor forward(const Tensor& images) const override;

  nn::Conv2d conv1{*this, "conv1", {.in = 3, .out = 16, .kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn1{*this, "bn1", {.features = 16}};
  nn::Sequential layer1{*this, "layer1"};
  nn::Sequential layer2{*this, "layer2"};
  nn::Sequential layer3{*this, "layer3"};
  nn::Linear linear;
};

FACULA_API CifarResNet resnet20(ModelOptions options = {}, nn::Place place = {});
FACULA_API CifarResNet resnet32(ModelOptions options = {}, nn::Place place = {});
FACULA_API CifarResNet resnet44(ModelOptions options = {}, nn::Place place = {});
FACULA_API CifarResNet resnet56(ModelOptions options = {}, nn::Place place = {});
FACULA_API CifarResNet resnet110(ModelOptions options = {}, nn::Place place = {});

struct VggOptions {
  std::int64_t num_classes = 1000;
  /// Batch norm after every convolution.
  bool batch_norm = false;
  /// One linear layer on one pixel instead of three on 7 x 7: for 32x32 images.
  bool cifar_classifier = false;
};

/// 3x3 convolutions and pooling, one after the other (Simonyan & Zisserman, 2015), torchvision's
/// variant: [N, 3, H, W] -> [N, num_classes].
class FACULA_API Vgg : public nn::Module {
 public:
  /// The channels of each convolution; 0 stands for pooling.
  Vgg(const std::vector<std::int64_t>& layers, VggOptions options, nn::Place place = {});
  Tensor forward(const Tensor& images) const override;

  nn::Sequential features{*this, "features"};
  nn::AnyModule classifier{*this, "classifier"};

 private:
  bool cifar_classifier_;
};

/// With 8 convolutions and 3 linear layers, or one.
FACULA_API Vgg vgg11(VggOptions options = {}, nn::Place place = {});
/// The same with batch norm.
FACULA_API Vgg vgg11_bn(VggOptions options = {}, nn::Place place = {});

struct MobileNetV2Options {
  std::int64_t num_classes = 1000;
  /// Strides of 1 in the stem and the first stage that would halve the image: for 32x32 images.
  bool cifar_strides = false;
};

/// A 1x1 convolution to `expansion` times the channels, a depthwise 3x3 one and a linear 1x1 one,
/// beside a shortcut where the shapes allow it.
class FACULA_API InvertedResidual : public nn::Module {
 public:
  explicit InvertedResidual(std::int64_t in, std::int64_t out, std::int64_t stride,
                            std::int64_t expansion, nn::Place place = {});
  Tensor forward(const Tensor& input) const override;

  nn::Sequential conv{*this, "conv"};

 private:
  bool shortcut_;
};

/// Inverted residuals with linear bottlenecks (Sandler et al., 2018), torchvision's variant:
/// [N, 3, H, W] -> [N, num_classes].
class FACULA_API MobileNetV2 : public nn::Module {
 public:
  explicit MobileNetV2(MobileNetV2Options options = {}, nn::Place place = {});
  Tensor forward(const Tensor& images) const override;

  nn::Sequential features{*this, "features"};
  nn::Sequential classifier{*this, "classifier"};
};

FACULA_API MobileNetV2 mobilenet_v2(MobileNetV2Options options = {}, nn::Place place = {});

/// What create() can make.
struct ModelInfo {
  std::string name;
  std::string description;
  /// Channels, height, width of an input image.
  std::int64_t channels, height, width;
  std::int64_t num_classes;
};
FACULA_API const std::vector<ModelInfo>& list();
/// Throws ValueError naming all models if there is none called `name`.
FACULA_API const ModelInfo& info(std::string_view name);
/// A new model with random weights. `num_classes` 0: as in its ModelInfo.
FACULA_API nn::AnyModule create(std::string_view name, std::int64_t num_classes = 0);

}  // namespace facula::models
