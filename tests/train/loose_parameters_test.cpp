// Parameters that are trained but not the model's: a temperature that only the loss knows.
#include <facula/train.h>

#include <gtest/gtest.h>

#include <filesystem>

#include <facula/checkpoint.h>
#include <facula/error.h>
#include <facula/nn/loss.h>

#include "tests/io/test_files.h"
#include "tests/train/classifier.h"

namespace facula::train {
namespace {

using io::expect_error;
using io::TempFolder;

/// Model and temperatures as a program makes them anew each time it starts.
struct Program {
  std::vector<Tensor> temperatures;
  Classifier model;

  explicit Program(const std::vector<Dims>& sizes) {
    for (const Dims& one : sizes) {
      temperatures.push_back(ones(one));
      temperatures.back().requires_grad_();
    }
  }

  Result fit(TrainerOptions options) {
    std::vector<Tensor> trained = temperatures;
    for (const Tensor& one : model.parameters()) trained.push_back(one);
    optim::SGD optimizer(trained, {.lr = 0.1, .momentum = 0.9});
    options.loss = [this](const Tensor& output, const Tensor& target) {
      Tensor scaled = output;
      for (const Tensor& one : temperatures) scaled = scaled * one.mean();
      return nn::CrossEntropyLoss()(scaled, target);
    };
    return Trainer(model, optimizer, options).fit(loader_of(rows(64)));
  }
};

/// As versions wrote it that left these parameters out.
void make_older(const std::string& checkpoint) {
  const StateDict saved = load_checkpoint(checkpoint);
  StateDict older;
  for (const auto& [name, value] : saved.entries()) {
    if (name != "loose") older.set(name, value);
  }
  save_checkpoint(older, checkpoint);
}

TEST(LooseParameters, ARunGoesOnWithTheirValues) {
  const TempFolder folder;
  const std::vector<Dims> sizes = {{1}, {2}};
  manual_seed(5);
  Program whole(sizes);
  whole.fit({.epochs = 3, .run_folder = folder / "whole"});
  EXPECT_NE(whole.temperatures[0].item<float>(), 1.0f);
  manual_seed(5);
  Program(sizes).fit({.epochs = 1, .run_folder = folder / "run"});
  Program resumed(sizes);
  const Result result =
      resumed.fit({.epochs = 3, .run_folder = folder / "run", .start = Start::resume});
  EXPECT_EQ(result.resumed_from, 4);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(resumed.temperatures[i].to_vector<float>(), whole.temperatures[i].to_vector<float>());
  }
  EXPECT_TRUE(io::get(folder / "run/model.safetensors") ==
              io::get(folder / "whole/model.safetensors"));
}

TEST(LooseParameters, OthersAreRefused) {
  const TempFolder folder;
  Program({{1}, {2}}).fit({.run_folder = folder / "run"});
  const auto resume = [&](const std::vector<Dims>& sizes) {
    testing::internal::CaptureStderr();
    Program program(sizes);
    const std::vector<float> before = program.model.output.weight.to_vector<float>();
    try {
      program.fit({.epochs = 2, .run_folder = folder / "run", .start = Start::resume});
    } catch (const Error& error) {
      testing::internal::GetCapturedStderr();
      EXPECT_EQ(program.model.output.weight.to_vector<float>(), before);
      return std::string(error.what());
    }
    testing::internal::GetCapturedStderr();
    return std::string();
  };
  const auto expect = [](const std::string& said, const char* part) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  expect(resume({{1}}), "holds 2 parameters that the optimizer trains but the model does not have");
  expect(resume({{2}, {1}}), "is of size [1] in the checkpoint, of size [2] in this run");

  make_older(folder / "run/checkpoints/checkpoint-000000004.safetensors");
  expect(resume({{1}, {2}}), "trains 2 parameters that the model does not have, which the version");
}

TEST(LooseParameters, OlderCheckpointsMayHaveThemAmongWhatIsTheProgramsOwn) {
  const TempFolder folder;
  Program program(std::vector<Dims>{{1}});
  program.fit({.run_folder = folder / "run", .save_extra = [&] {
                 StateDict extra;
                 extra.set("temperature", program.temperatures[0].detach());
                 return extra;
               }});
  make_older(folder / "run/checkpoints/checkpoint-000000004.safetensors");
  Program resumed(std::vector<Dims>{{1}});
  const Result result = resumed.fit({.epochs = 2,
                                     .run_folder = folder / "run",
                                     .start = Start::resume,
                                     .load_extra = [&](const StateDict& extra) {
                                       EXPECT_EQ(extra.tensor("temperature").item<float>(),
                                                 program.temperatures[0].item<float>());
                                     }});
  EXPECT_EQ(result.resumed_from, 4);
  EXPECT_EQ(result.steps, 8);
}

TEST(LooseParameters, AModelWithoutAnyWeightsIsRefusedWhereTheyAreSaved) {
  struct Forgotten : nn::Module {
    Classifier apart;  // no member: neither `this` nor a name
    Tensor forward(const Tensor& x) const override { return apart(x); }
  } model;
  optim::SGD optimizer(model.apart.parameters(), {.lr = 0.1});
  const TempFolder folder;
  const Tensor before = model.apart.output.weight.clone();
  expect_error<ValueError>(
      [&] { Trainer(model, optimizer, {.run_folder = folder / "run"}).fit(loader_of(rows(64))); },
      {"nothing in the model's state_dict()", "4 parameters", "register", "*this and a name"});
  EXPECT_EQ(model.apart.output.weight.to_vector<float>(), before.to_vector<float>());
  EXPECT_FALSE(std::filesystem::exists(folder / "run/model.safetensors"));
  EXPECT_EQ(Trainer(model, optimizer).fit(loader_of(rows(64))).steps, 4);
}

}  // namespace
}  // namespace facula::train
