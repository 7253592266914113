// Weights that others trained reach the accuracy that others measured.
#include <facula/data.h>
#include <facula/models.h>
#include <facula/nn.h>
#include <facula/train.h>

#include <cmath>
#include <cstdlib>
#include <numeric>

#include "tests/io/shared_files.h"
#include "tests/io/test_files.h"
#include "tests/support/problems.h"

namespace facula::models {
namespace {

namespace F = nn::functional;
namespace transforms = data::transforms;
using io::shared_data;

/// Unpacks the file of the shared models whose name ends with `name`; returns its path.
std::string unpack(const std::string& archive, const std::string& name, const std::string& folder) {
  const auto files = io::shared_files(archive, name);
  std::string path = folder + "/" + name;
  const auto& bytes = files.at(files.begin()->first);
  io::put(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return path;
}

/// All images take half a minute; where code runs slower, the first ones must do.
bool is_slow() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  return std::getenv("FACULA_CPU_CAPABILITY") != nullptr;
#endif
}

constexpr std::int64_t kFew = 500;

data::DatasetPtr first_few(const data::DatasetPtr& set) {
  std::vector<std::int64_t> indices(kFew);
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  return data::subset(set, indices);
}

/// How many images a model should get right.
struct Expected {
  std::int64_t of_all, of_few;
};

void expect_right(nn::Module& model, const data::DatasetPtr& all, const Expected& expected,
                  const std::vector<double>& mean, const std::vector<double>& std) {
  const data::DatasetPtr set = is_slow() ? first_few(all) : all;
  const data::DataLoader loader(
      set, {.batch_size = 250,
            .transform =
                transforms::Compose({transforms::ToTensor(), transforms::Normalize(mean, std)})});
  const double right = train::evaluate(model, loader).accuracy * static_cast<double>(set->size());
  EXPECT_EQ(std::llround(right), is_slow() ? expected.of_few : expected.of_all);
}

/// A trained ResNet on CIFAR-10's test set; the file is in torch.save's legacy format and has
/// DataParallel's names.
void expect_right(const char* model_name, const char* file, const Expected& expected) {
  FACULA_REQUIRE_SHARED_DATA(archive, "models/models.tar.xz");
  FACULA_REQUIRE_SHARED_DATA(cifar, "cifar10");
  const io::TempFolder folder;
  const nn::AnyModule model = create(model_name);
  const nn::LoadReport report =
      model->load_pth(unpack(archive, file, folder.path()), {.key_prefix = "state_dict.module."});
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
  expect_right(*model, data::cifar10(cifar, data::Part::test), expected, {0.485, 0.456, 0.406},
               {0.229, 0.224, 0.225});
}

TEST(Pretrained, ResNet20OnCifar10) {
  FACULA_NOTHING_FOR_TSAN();
  expect_right("resnet20", "resnet20-12fca82f.th", {9173, 455});
}

TEST(Pretrained, ResNet32OnCifar10) {
  FACULA_NOTHING_FOR_TSAN();
  expect_right("resnet32", "resnet32-d509ac18.th", {9263, 466});
}

/// The network that burn's tests of PyTorch's files train on MNIST.
struct BurnMnist : nn::Module {
  nn::Conv2d conv1{*this, "conv1", {.in = 1, .out = 8, .kernel = 3}};
  nn::Conv2d conv2{*this, "conv2", {.in = 8, .out = 16, .kernel = 3}};
  nn::Conv2d conv3{*this, "conv3", {.in = 16, .out = 24, .kernel = 3}};
  nn::BatchNorm2d norm1{*this, "norm1", {.features = 24}};
  nn::Linear fc1{*this, "fc1", {.in = 24 * 22 * 22, .out = 32}};
  nn::Linear fc2{*this, "fc2", {.in = 32, .out = 10}};
  nn::BatchNorm1d norm2{*this, "norm2", {.features = 10}};

  Tensor forward(const Tensor& images) const override {
    const Tensor x = F::relu(conv3(F::relu(conv2(F::relu(conv1(images))))));
    return norm2(fc2(F::relu(fc1(F::flatten(norm1(x), 1)))));
  }
};

void expect_right_of_burn(const char* file, const Expected& expected) {
  FACULA_REQUIRE_SHARED_DATA(archive, "models/models.tar.xz");
  FACULA_REQUIRE_SHARED_DATA(mnist, "mnist");
  const io::TempFolder folder;
  BurnMnist model;
  model.load_pth(unpack(archive, file, folder.path()));
  expect_right(model, data::mnist(mnist, data::Part::test), expected, {0.1307}, {0.3081});
}

TEST(Pretrained, BurnMnistInTorchFormat) { expect_right_of_burn("burn_mnist.pt", {9915, 495}); }

TEST(Pretrained, BurnMnistInSafetensors) {
  expect_right_of_burn("burn_mnist.safetensors", {9917, 494});
}

}  // namespace
}  // namespace facula::models
