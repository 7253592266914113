#include <facula/models.h>

#include "base/check.h"

namespace facula::models {
namespace {

struct Entry {
  ModelInfo info;
  nn::AnyModule (*make)(std::int64_t num_classes);
};

const std::vector<Entry>& entries() {
  static const auto& table = *new std::vector<Entry>{
      {{"net", "LeNet-like network of PyTorch's tutorials", 3, 32, 32, 10},
       [](std::int64_t classes) { return nn::AnyModule(Net({.num_classes = classes})); }},
      {{"mnist-cnn", "2 convolutions, 2 linear layers", 1, 28, 28, 10},
       [](std::int64_t classes) { return nn::AnyModule(MnistCnn({.num_classes = classes})); }},
      {{"mlp", "784-512-512-10 perceptron", 1, 28, 28, 10},
       [](std::int64_t classes) { return nn::AnyModule(Mlp({.num_classes = classes})); }},
      {{"resnet18", "ResNet-18, ImageNet stem", 3, 224, 224, 1000},
       [](std::int64_t classes) { return nn::AnyModule(resnet18({.num_classes = classes})); }},
      {{"resnet34", "ResNet-34, ImageNet stem", 3, 224, 224, 1000},
       [](std::int64_t classes) { return nn::AnyModule(resnet34({.num_classes = classes})); }},
      {{"resnet18-cifar", "ResNet-18, CIFAR stem", 3, 32, 32, 10},
       [](std::int64_t classes) {
         return nn::AnyModule(resnet18({.num_classes = classes, .cifar_stem = true}));
       }},
      {{"resnet34-cifar", "ResNet-34, CIFAR stem", 3, 32, 32, 10},
       [](std::int64_t classes) {
         return nn::AnyModule(resnet34({.num_classes = classes, .cifar_stem = true}));
       }},
      {{"resnet20", "ResNet-20 for CIFAR, shortcuts without parameters", 3, 32, 32, 10},
       [](std::int64_t classes) { return nn::AnyModule(resnet20({.num_classes = classes})); }},
      {{"resnet32", "ResNet-32 for CIFAR, shortcuts without parameters", 3, 32, 32, 10},
       [](std::int64_t classes) { return nn::AnyModule(resnet32({.num_classes = classes})); }},
      {{"resnet44", "ResNet-44 for CIFAR, shortcuts without parameters", 3, 32, 32, 10},
       [](std::int64_t classes) { return nn::AnyModule(resnet44({.num_classes = classes})); }},
      {{"resnet56", "ResNet-56 for CIFAR, shortcuts without parameters", 3, 32, 32, 10},
       [](std::int64_t classes) { return nn::AnyModule(resnet56({.num_classes = classes})); }},
      {{"resnet110", "ResNet-110 for CIFAR, shortcuts without parameters", 3, 32, 32, 10},
       [](std::int64_t classes) { return nn::AnyModule(resnet110({.num_classes = classes})); }},
      {{"vgg11-cifar", "VGG-11, 1 linear layer", 3, 32, 32, 10},
       [](std::int64_t classes) {
         return nn::AnyModule(vgg11({.num_classes = classes, .cifar_classifier = true}));
       }},
      {{"vgg11-bn-cifar", "VGG-11 with batch norm, 1 linear layer", 3, 32, 32, 10},
       [](std::int64_t classes) {
         return nn::AnyModule(vgg11_bn({.num_classes = classes, .cifar_classifier = true}));
       }},
      {{"mobilenetv2", "MobileNetV2, ImageNet strides", 3, 224, 224, 1000},
       [](std::int64_t classes) { return nn::AnyModule(mobilenet_v2({.num_classes = classes})); }},
      {{"mobilenetv2-cifar", "MobileNetV2, CIFAR strides", 3, 32, 32, 10},
       [](std::int64_t classes) {
         return nn::AnyModule(mobilenet_v2({.num_classes = classes, .cifar_strides = true}));
       }},
  };
  return table;
}

const Entry& find(std::string_view name) {
  std::string names;
  for (const Entry& entry : entries()) {
    if (entry.info.name == name) return entry;
    names += (names.empty() ? "" : ", ") + entry.info.name;
  }
  fail<ValueError>("models: there is no model \"{}\"; choose one of: {}", name, names);
}

}  // namespace

const std::vector<ModelInfo>& list() {
  static const auto& infos = *[] {
    auto* const collected = new std::vector<ModelInfo>;
    for (const Entry& entry : entries()) collected->push_back(entry.info);
    return collected;
  }();
  return infos;
}

const ModelInfo& info(std::string_view name) { return find(name).info; }

nn::AnyModule create(std::string_view name, std::int64_t num_classes) {
  const Entry& entry = find(name);
  check<ValueError>(num_classes >= 0, "models: num_classes is {}, must not be negative",
                    num_classes);
  return entry.make(num_classes == 0 ? entry.info.num_classes : num_classes);
}

}  // namespace facula::models
