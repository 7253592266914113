#include <facula/model_file.h>

#include <facula/checkpoint.h>
#include <facula/npy.h>
#include <facula/torch_file.h>

#include "core/tensor_impl.h"
#include "io/file_format.h"
#include "io/safetensors/safetensors.h"
#include "test_files.h"
#include "tests/support/expect.h"

namespace facula::io {
namespace {

StateDict sample() {
  StateDict state;
  state.set("fc.weight", randn({2, 3}));
  state.set("fc.bias", randn({2}));
  return state;
}

TEST(ModelFile, TheContentSaysTheFormatAndTheNameNothing) {
  TempFolder folder;
  const StateDict state = sample();
  const std::string path = folder / "weights.onnx";
  const std::pair<const char*, void (*)(const StateDict&, const std::string&)> writers[] = {
      {"safetensors", [](const StateDict& s, const std::string& p) { save_safetensors(s, p); }},
      {"torch zip", save_torch},
      {"npz", save_npz},
  };
  for (const auto& [format, save] : writers) {
    SCOPED_TRACE(format);
    save(state, path);
    const ModelFileInfo info = inspect_model_file(path);
    EXPECT_EQ(info.format, format);
    EXPECT_EQ(info.refusal, "");
    ASSERT_EQ(info.tensors.size(), 2u);
    const StateDict loaded = load_weights(path);
    for (const auto& [name, value] : state.flat())
      expect_equal(loaded.tensor(name), *value->get_if<Tensor>());
    for (const TensorInfo& tensor : info.tensors) {
      EXPECT_EQ(tensor.shape, state.tensor(tensor.name).sizes().vec());
      EXPECT_EQ(static_cast<std::int64_t>(tensor.bytes), state.tensor(tensor.name).nbytes());
    }
  }
  save_npz({}, path);
  EXPECT_EQ(inspect_model_file(path).format, "npz");
  EXPECT_TRUE(load_weights(path).empty());
  save_npy(state.tensor("fc.bias"), path);
  expect_equal(load_weights(path).tensor("tensor"), state.tensor("fc.bias"));
  EXPECT_EQ(inspect_model_file(path).format, "npy");
}

// Calls on tensors whose address is known outside wait for nobody, which costs time.
TEST(ModelFile, SavingGivesNoAddressOut) {
  const TempFolder folder;
  const StateDict state = sample();
  save_safetensors(state, folder / "a");
  save_torch(state, folder / "b");
  save_npz(state, folder / "c");
  save_checkpoint(state, folder / "d");
  for (const auto& [name, value] : state.flat()) {
    EXPECT_FALSE(value->get_if<Tensor>()->impl()->storage->is_exposed()) << name;
  }
}

TEST(ModelFile, SavingGoesByTheName) {
  TempFolder folder;
  const StateDict state = sample();
  for (const char* name : {"a.safetensors", "a.pth", "a.pt", "a.th", "a.npz"}) {
    save_weights(state, folder / name);
    expect_equal(load_weights(folder / name).tensor("fc.bias"), state.tensor("fc.bias"));
  }
  EXPECT_ERROR(ValueError, "says no format", save_weights(state, folder / "a.bin"));
}

TEST(ModelFile, SharedMemoryAndValuesOfATorchFile) {
  TempFolder folder;
  StateDict state;
  const Tensor table = randn({4, 2});
  state.set("encoder.weight", table);
  state.set("decoder.weight", table);
  state.set("bias", zeros({2}));
  save_torch(state, folder / "tied.pth");
  const ModelFileInfo info = inspect_model_file(folder / "tied.pth");
  ASSERT_EQ(info.shared.size(), 1u);
  EXPECT_EQ(info.shared[0], (std::vector<std::string>{"encoder.weight", "decoder.weight"}));
}

TEST(ModelFile, NamesOfWhichOneWouldBeLostAreRefused) {
  TempFolder folder;
  const std::string path = folder / "a.safetensors";
  const std::vector<uint8_t> data(8);
  const std::span<const uint8_t> all(data);
  const auto write = [&](const std::string& first, const std::string& second) {
    const SafetensorsEntry entries[] = {{first, "F64", {1}, all},
                                        {second, "F32", {1}, all.first(4)}};
    write_safetensors(path, entries);
  };
  for (const auto& [first, second] : {std::pair("a", "a.b"), std::pair("a.b", "a")}) {
    write(first, second);
    EXPECT_ERROR(IoError, "cannot be used", load_safetensors(path));
    EXPECT_ERROR(IoError, "cannot be used", SafetensorsFile(path).state_dict());
    EXPECT_NE(inspect_model_file(path).refusal.find("cannot be used"), std::string::npos);
    EXPECT_EQ(SafetensorsFile(path).tensor(second).numel(), 1);
  }
  write("a.b", "a.c");
  const StateDict both = load_safetensors(path);
  EXPECT_EQ(both.flat().size(), 2u);
  EXPECT_EQ(inspect_model_file(path).refusal, "");
}

TEST(ModelFile, MissingFilesAndRefusedOnes) {
  TempFolder folder;
  EXPECT_ERROR(IoError, "cannot open", load_weights(folder / "absent"));
  EXPECT_ERROR(IoError, "cannot open", inspect_model_file(folder / "absent"));
  put(folder / "lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n");
  EXPECT_ERROR(IoError, "git lfs pull", load_weights(folder / "lfs"));
  put(folder / "tar", std::string("sys_info\0", 9) + std::string(1000, '\0'));
  EXPECT_ERROR(IoError, "of 2016", load_weights(folder / "tar"));
  put(folder / "cut.safetensors", std::string("\xff\0\0\0\0\0\0\0{}", 10));
  EXPECT_ERROR(IoError, "the safetensors header", load_weights(folder / "cut.safetensors"));
}

TEST(ModelFile, EveryKnownFileIsRecognised) {
  FACULA_REQUIRE_SHARED_DATA(data, "models/models.tar.xz");
  TempFolder folder;
  const std::string command = "tar -xf " + data + " -C " + folder.path();
  ASSERT_EQ(std::system(command.c_str()), 0);
  int valid = 0, refused = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    if (!entry.is_regular_file()) continue;
    const std::string path = entry.path(), suffix = entry.path().extension();
    SCOPED_TRACE(path);
    const ModelFileInfo info = inspect_model_file(path);
    if (suffix == ".safetensors") {
      EXPECT_EQ(info.format, "safetensors");
    } else if (suffix == ".onnx") {
      EXPECT_EQ(info.format, "ONNX");
    }
    if (info.refusal.empty()) {
      EXPECT_NO_THROW(load_weights(path));
      ++valid;
    } else {
      EXPECT_THROW(load_weights(path), Error);
      ++refused;
    }
  }
  EXPECT_GE(valid, 75);
  EXPECT_GE(refused, 8);
}

TEST(ModelFile, AgreesWithTheVerdictsOnSafetensorsVectors) {
  FACULA_REQUIRE_SHARED_DATA(data, "adversarial/adversarial.tar.xz");
  TempFolder folder;
  const std::string command =
      "tar -xf " + data + " -C " + folder.path() + " --wildcards '*safetensors-vectors/*'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::ifstream manifest(folder / "safetensors-vectors/MANIFEST.tsv");
  std::string line;
  std::getline(manifest, line);
  int checked = 0;
  while (std::getline(manifest, line)) {
    SCOPED_TRACE(line);
    const std::string path = folder / ("safetensors-vectors/" + line.substr(0, line.find('\t')));
    const bool accept = line.find("\taccept") != std::string::npos;
    EXPECT_EQ(inspect_model_file(path).refusal.empty(), accept);
    if (accept) {
      EXPECT_NO_THROW(load_weights(path));
      EXPECT_NO_THROW(SafetensorsFile(path).state_dict());
    } else {
      EXPECT_THROW(load_weights(path), IoError);
      EXPECT_THROW(SafetensorsFile{path}, IoError);
    }
    ++checked;
  }
  EXPECT_EQ(checked, 18);
}

}  // namespace
}  // namespace facula::io
