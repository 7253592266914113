#include <facula/models.h>

#include <gtest/gtest.h>

#include <algorithm>

#include <facula/autograd.h>
#include <facula/error.h>

namespace facula::models {
namespace {

// Parameter counts: PyTorch and torchvision.
struct Expected {
  const char* name;
  std::int64_t parameters;
};

TEST(Models, HaveTheParametersOfTheirOriginals) {
  for (const auto& [name, count] :
       {Expected{"net", 62006}, Expected{"mnist-cnn", 1199882}, Expected{"mlp", 669706},
        Expected{"resnet18", 11689512}, Expected{"resnet34", 21797672},
        Expected{"resnet18-cifar", 11173962}}) {
    EXPECT_EQ(create(name)->parameter_count(), count) << name;
  }
}

TEST(Models, MapImagesToClassScores) {
  for (const ModelInfo& model : list()) {
    const nn::AnyModule module = create(model.name, 7);
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

TEST(Models, ResNetHasTorchvisionsNames) {
  const ResNet model = resnet18({.num_classes = 10, .cifar_stem = true});
  std::vector<std::string> names;
  for (const auto& [name, value] : model.state_dict().flat()) names.push_back(name);
  EXPECT_EQ(names.size(), 122u);
  EXPECT_EQ(names.front(), "conv1.weight");
  EXPECT_EQ(names.back(), "fc.bias");
  for (const char* name :
       {"bn1.num_batches_tracked", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight",
        "layer2.0.downsample.1.running_mean", "layer4.1.bn2.bias"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
  EXPECT_EQ(std::find(names.begin(), names.end(), "layer1.0.downsample.0.weight"), names.end());
}

TEST(Models, ResNetTrainsAndEvaluates) {
  ResNet model = resnet18({.num_classes = 4, .cifar_stem = true});
  const Tensor images = randn({2, 3, 8, 8});
  model(images).sum().backward();
  for (const auto& [name, tensor] : model.named_parameters()) {
    EXPECT_TRUE(tensor.grad().defined()) << name;
  }
  model.eval();
  const InferenceMode inference;
  const std::vector<float> once = model(images).to_vector<float>();
  EXPECT_EQ(model(images).to_vector<float>(), once);
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
