#include <facula/hub.h>

#include <facula/model_file.h>

#include <cstdlib>
#include <filesystem>

#include "tests/io/test_files.h"
#include "tests/support/expect.h"

namespace facula {
namespace {

using io::TempFolder;

TEST(Hub, LoadsWeightsOfEveryFormat) {
  TempFolder folder;
  const nn::AnyModule source = models::create("mnist-cnn");
  for (const char* name : {"w.safetensors", "w.pth", "w.npz"}) {
    save_weights(source->state_dict(), folder / name);
    const nn::AnyModule model = hub::load("mnist-cnn", {.weights = folder / name});
    EXPECT_FALSE(model->is_training());
    const StateDict expected = source->state_dict(), found = model->state_dict();
    for (const auto& [key, value] : expected.flat())
      expect_equal(found.tensor(key), *value->get_if<Tensor>());
  }
}

TEST(Hub, WeightsInsideACheckpoint) {
  TempFolder folder;
  const nn::AnyModule source = models::create("mlp");
  StateDict file;
  file.set("state_dict.module", source->state_dict());
  file.set("epoch", zeros({}));
  save_weights(file, folder / "c.pth");
  const nn::AnyModule model = hub::load(
      "mlp", {.weights = "file://" + (folder / "c.pth"), .key_prefix = "state_dict.module."});
  expect_equal(model->parameters()[0], source->parameters()[0]);
  EXPECT_ERROR(ValueError, "no weights of mlp", hub::load("mlp", {.weights = folder / "c.pth"}));
  EXPECT_ERROR(ValueError, "none of its names",
               hub::load("mlp", {.weights = folder / "c.pth", .strict = false}));
  EXPECT_ERROR(ValueError, "no model \"mlp2\"", hub::load("mlp2"));
}

TEST(Hub, NumberOfClasses) {
  TempFolder folder;
  save_weights(models::create("mlp", 7)->state_dict(), folder / "w.npz");
  EXPECT_NO_THROW(hub::load("mlp", {.weights = folder / "w.npz", .num_classes = 7}));
  EXPECT_ERROR(ValueError, "no weights of mlp", hub::load("mlp", {.weights = folder / "w.npz"}));
}

TEST(Hub, ChecksumsOfLocalFiles) {
  TempFolder folder;
  io::put(folder / "abc", "abc");
  const std::string sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  EXPECT_EQ(hub::download(folder / "abc", sha256), folder / "abc");
  EXPECT_EQ(hub::download(folder / "abc", "BA7816BF"), folder / "abc");
  EXPECT_ERROR(IoError, sha256, hub::download(folder / "abc", "00000000"));
  EXPECT_ERROR(ValueError, "8 to 64", hub::download(folder / "abc", "ba7816"));
  EXPECT_ERROR(IoError, "not in the cache",
               hub::download("http://127.0.0.1:9/x", sha256, {.offline = true}));
}

}  // namespace
}  // namespace facula
