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

/// FACULA_HOME while it lives; tests have none beside.
class Home {
 public:
  explicit Home(const std::string& folder) { ::setenv("FACULA_HOME", folder.c_str(), 1); }
  ~Home() { ::unsetenv("FACULA_HOME"); }
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;
};

TEST(Hub, OfflineAdviceHelps) {
  TempFolder folder;
  const Home home(folder.path());
  const std::string url = "http://127.0.0.1:9/x";
  const std::string sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  const std::string place = folder / ("hub/files/" + sha256);
  const auto ask = [&](const std::string& digits) {
    return hub::download(url, digits, {.offline = true});
  };
  for (const char* digits : {"", "ba7816bf"})
    io::expect_error([&] { ask(digits); },
                     {"give the path", "all 64 digits", folder / "hub/files/SHA256"});
  io::expect_error([&] { ask(sha256); }, {"put it there as " + place});
  std::filesystem::create_directories(folder / "hub/files");
  io::put(place, "abc");
  EXPECT_EQ(ask(sha256), place);
}

TEST(Hub, OddPathsAreErrorsOfFacula) {
  const std::string long_name(300, 'x');
  io::expect_error([&] { hub::download(long_name); }, {long_name, "choose a shorter name"});
  io::expect_error([&] { hub::download("file://" + long_name); }, {"choose a shorter name"});
  io::expect_error([] { hub::download(std::string("/etc/passwd\0x", 13)); }, {"NUL"});
  io::expect_error([] { hub::download("/"); }, {"no file '/'"});
  const Home home("/" + long_name);
  const std::string url = "http://127.0.0.1:9/x", sha256(64, '0');
  for (const std::string& digits : {std::string(), sha256})
    io::expect_error([&] { hub::download(url, digits, {.offline = true}); },
                     {long_name, "choose a shorter name"});
}

}  // namespace
}  // namespace facula
