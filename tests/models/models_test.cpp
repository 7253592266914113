#include <facula/models.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <facula/autograd.h>
#include <facula/error.h>
#include <facula/generator.h>

#include "tests/support/problems.h"

namespace facula::models {
namespace {

// Parameter counts: PyTorch and torchvision.
struct Expected {
  const char* name;
  std::int64_t parameters;
};

TEST(Models, HaveTheParametersOfTheirOriginals) {
  FACULA_NOTHING_FOR_TSAN();
  for (const auto& [name, count] :
       {Expected{"net", 62006}, Expected{"mnist-cnn", 1199882}, Expected{"mlp", 669706},
        Expected{"resnet18", 11689512}, Expected{"resnet34", 21797672},
        Expected{"resnet20", 269722}, Expected{"resnet32", 464154}, Expected{"resnet44", 658586},
        Expected{"resnet56", 853018}, Expected{"resnet110", 1727962},
        Expected{"resnet18-cifar", 11173962}, Expected{"vgg11-cifar", 9225610},
        Expected{"vgg11-bn-cifar", 9231114}, Expected{"mobilenetv2", 3504872},
        Expected{"mobilenetv2-cifar", 2236682}}) {
    EXPECT_EQ(create(name)->parameter_count(), count) << name;
  }
}

TEST(Models, MapImagesToClassScores) {
  FACULA_NOTHING_FOR_TSAN();
  for (const ModelInfo& model : list()) {
    const nn::AnyModule module = create(model.name, 7);
    module->eval();  // random numbers would be drawn on the CPU
    module->to(kNull);
    const Tensor images = empty({3, model.channels, model.height, model.width}, kNull);
    EXPECT_EQ(module(images).sizes(), IntList({3, 7})) << model.name;
  }
}

TEST(Models, SmallOnesTrainEveryParameter) {
  for (const char* name : {"net", "mnist-cnn", "mlp"}) {
    const nn::AnyModule module = create(name);
    const ModelInfo& model = info(name);
    module(randn({2, model.channels, model.height, model.width})).sum().backward();
    for (const auto& [parameter, tensor] : module->named_parameters()) {
      ASSERT_TRUE(tensor.grad().defined()) << name << " " << parameter;
      EXPECT_GT(tensor.grad().abs().sum().item(), 0) << name << " " << parameter;
    }
  }
}

std::vector<std::string> names_of(const nn::Module& model) {
  std::vector<std::string> names;
  const StateDict state = model.state_dict();
  for (const auto& [name, value] : state.flat()) names.push_back(name);
  return names;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

TEST(Models, ResNetHasTorchvisionsNames) {
  const auto names = names_of(resnet18({.num_classes = 10, .cifar_stem = true}));
  EXPECT_EQ(names.size(), 122u);
  EXPECT_EQ(names.front(), "conv1.weight");
  EXPECT_EQ(names.back(), "fc.bias");
  for (const char* name :
       {"bn1.num_batches_tracked", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight",
        "layer2.0.downsample.1.running_mean", "layer4.1.bn2.bias"}) {
    EXPECT_TRUE(has(names, name)) << name;
  }
  EXPECT_FALSE(has(names, "layer1.0.downsample.0.weight"));
}

TEST(Models, VggHasTorchvisionsNames) {
  const auto plain = names_of(vgg11({.num_classes = 10, .cifar_classifier = true}));
  EXPECT_EQ(plain,
            (std::vector<std::string>{
                "features.0.weight", "features.0.bias", "features.3.weight", "features.3.bias",
                "features.6.weight", "features.6.bias", "features.8.weight", "features.8.bias",
                "features.11.weight", "features.11.bias", "features.13.weight", "features.13.bias",
                "features.16.weight", "features.16.bias", "features.18.weight", "features.18.bias",
                "classifier.weight", "classifier.bias"}));
  const auto normalized = names_of(vgg11_bn({.num_classes = 10, .cifar_classifier = true}));
  EXPECT_EQ(normalized.size(), 58u);
  for (const char* name : {"features.1.running_var", "features.25.weight", "features.26.bias"}) {
    EXPECT_TRUE(has(normalized, name)) << name;
  }
}

// The full one has 133 million parameters.
TEST(Models, VggForLargeImagesHasThreeLinearLayers) {
  FACULA_NOTHING_FOR_TSAN();
  Vgg model({8, 0}, {.num_classes = 10});
  const auto names = names_of(model);
  for (const char* name : {"classifier.0.weight", "classifier.3.bias", "classifier.6.weight"}) {
    EXPECT_TRUE(has(names, name)) << name;
  }
  model.eval();
  const InferenceMode inference;
  EXPECT_EQ(model(randn({2, 3, 20, 20})).sizes(), IntList({2, 10}));
}

TEST(Models, MobileNetHasTorchvisionsNames) {
  const auto names = names_of(mobilenet_v2({.num_classes = 10, .cifar_strides = true}));
  EXPECT_EQ(names.size(), 314u);
  EXPECT_EQ(names.front(), "features.0.0.weight");
  EXPECT_EQ(names.back(), "classifier.1.bias");
  for (const char* name :
       {"features.1.conv.0.0.weight", "features.1.conv.1.weight", "features.1.conv.2.running_mean",
        "features.2.conv.0.1.bias", "features.17.conv.1.0.weight", "features.17.conv.2.weight",
        "features.17.conv.3.num_batches_tracked", "features.18.1.running_var"}) {
    EXPECT_TRUE(has(names, name)) << name;
  }
}

TEST(Models, WeightsStartAsTorchvisions) {
  manual_seed(5);
  const Vgg vgg = vgg11_bn({.cifar_classifier = true});
  const MobileNetV2 mobile = mobilenet_v2();
  const auto deviation = [](const Tensor& weight) {
    return std::sqrt(square(weight.detach()).mean().item());
  };
  // kaiming_normal_ by fan_out: sqrt(2 / (outputs * 9)), for depthwise weights as well.
  const double conv = std::sqrt(2.0 / (512 * 9)), depthwise = std::sqrt(2.0 / (960 * 9));
  const StateDict vgg_state = vgg.state_dict(), mobile_state = mobile.state_dict();
  EXPECT_NEAR(deviation(vgg_state.tensor("features.25.weight")) / conv, 1, 0.01);
  EXPECT_NEAR(deviation(vgg_state.tensor("classifier.weight")) / 0.01, 1, 0.02);
  EXPECT_NEAR(deviation(mobile_state.tensor("features.17.conv.1.0.weight")) / depthwise, 1, 0.05);
  EXPECT_NEAR(deviation(mobile_state.tensor("classifier.1.weight")) / 0.01, 1, 0.01);
  for (const Tensor& bias :
       {vgg_state.tensor("features.25.bias"), vgg_state.tensor("classifier.bias"),
        mobile_state.tensor("classifier.1.bias")}) {
    EXPECT_EQ(bias.abs().sum().item(), 0);
  }
}

/// One step of training, and evaluation.
void expect_to_train(nn::Module& model, IntList images) {
  const Tensor input = randn(images).contiguous(kChannelsLast);
  model(input).square().sum().backward();
  for (const auto& [name, tensor] : model.named_parameters()) {
    ASSERT_TRUE(tensor.grad().defined()) << name;
    EXPECT_TRUE(std::isfinite(tensor.grad().abs().sum().item())) << name;
  }
  model.eval();
  const InferenceMode inference;
  const std::vector<float> once = model(input).to_vector<float>();
  EXPECT_EQ(model(input).to_vector<float>(), once);
}

TEST(Models, LargerOnesTrainAndEvaluate) {
  ResNet resnet = resnet18({.num_classes = 4, .cifar_stem = true});
  expect_to_train(resnet, {2, 3, 8, 8});
  Vgg vgg = vgg11({.num_classes = 4, .cifar_classifier = true});
  expect_to_train(vgg, {2, 3, 32, 32});
  Vgg vgg_bn = vgg11_bn({.num_classes = 4, .cifar_classifier = true});
  expect_to_train(vgg_bn, {4, 3, 32, 32});
  MobileNetV2 mobile = mobilenet_v2({.num_classes = 4, .cifar_strides = true});
  expect_to_train(mobile, {4, 3, 16, 16});
}

TEST(Models, ErrorsNameTheLayer) {
  const nn::AnyModule module = create("resnet18-cifar");
  try {
    module(randn({1, 4, 8, 8}));
    FAIL() << "4 channels were accepted";
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("in module conv1"), std::string::npos) << error.what();
  }
}

TEST(Models, UnknownNamesListTheKnown) {
  try {
    create("resnet19");
    FAIL() << "resnet19 was made";
  } catch (const ValueError& error) {
    const std::string message = error.what();
    for (const ModelInfo& model : list()) {
      EXPECT_NE(message.find(model.name), std::string::npos) << message;
    }
  }
  EXPECT_THROW(create("net", -1), ValueError);
}

}  // namespace
}  // namespace facula::models
