// The side of Facula in benchmarks/pytorch/equality.py: trains on one batch from given weights with
// plain SGD and writes what came of it.
//
//   equality_step MODEL WEIGHTS.safetensors BATCH.safetensors OUT.safetensors [--steps N] [--lr X]
//
// BATCH holds "input" (float32 [N, C, H, W]) and "target" (int64 [N]). OUT gets "loss" (float32
// [steps], each before its update), "grad.NAME" of the first step and the final "param.NAME" for
// every parameter.

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <facula/autograd.h>
#include <facula/error.h>
#include <facula/models.h>
#include <facula/nn/loss.h>
#include <facula/optim.h>
#include <facula/safetensors.h>

namespace {

using namespace facula;

struct Arguments {
  std::string model, weights, batch, out;
  long steps = 1;
  double lr = 0.01;
};

Arguments parse(const std::vector<std::string>& words) {
  Arguments arguments;
  std::vector<std::string> files;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool has_value = i + 1 < words.size();
    if (words[i] == "--steps" && has_value) {
      arguments.steps = std::stol(words[++i]);
    } else if (words[i] == "--lr" && has_value) {
      arguments.lr = std::stod(words[++i]);
    } else {
      files.push_back(words[i]);
    }
  }
  if (files.size() != 4 || arguments.steps < 1) {
    throw ValueError("usage: equality_step MODEL WEIGHTS BATCH OUT [--steps N] [--lr X]");
  }
  arguments.model = files[0];
  arguments.weights = files[1];
  arguments.batch = files[2];
  arguments.out = files[3];
  return arguments;
}

void run(const Arguments& arguments) {
  const StateDict batch = load_safetensors(arguments.batch);
  const Tensor input = batch.tensor("input").to(kChannelsLast);
  const Tensor target = batch.tensor("target");
  nn::AnyModule model = models::create(arguments.model);
  model->load_state_dict(load_safetensors(arguments.weights));
  optim::SGD optimizer(model->parameters(), {.lr = arguments.lr});
  const nn::CrossEntropyLoss criterion;

  StateDict out;
  std::vector<double> losses;
  for (long step = 0; step < arguments.steps; ++step) {
    optimizer.zero_grad();
    const Tensor loss = criterion(model(input), target);
    loss.backward();
    if (step == 0) {
      for (const auto& [name, parameter] : model->named_parameters()) {
        out.set("grad." + name, parameter.grad().to(kCPU, /*non_blocking=*/false, /*copy=*/true));
      }
    }
    optimizer.step();
    losses.push_back(loss.item());
  }
  out.set("loss", tensor(losses));
  for (const auto& [name, parameter] : model->named_parameters()) {
    out.set("param." + name, parameter.detach());
  }
  save_safetensors(out, arguments.out);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse({argv + 1, argv + argc}));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "equality_step: %s\n", error.what());
    return 1;
  }
}
