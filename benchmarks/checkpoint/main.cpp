// What checkpoints of ResNet-18 with Adam cost the training that goes on meanwhile.
//
//   bench_checkpoint FOLDER [PERIODS [STEPS]]
//
// Trains with a checkpoint every STEPS steps (even). The first half of the steps after a checkpoint
// contains the snapshot and the writing, the second half nothing: the difference is the cost. Both
// follow each other, so that a machine whose speed varies disturbs them alike; the median of the
// PERIODS counts. A training that writes a checkpoint a minute loses that much of 60 s.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <facula/checkpoint.h>
#include <facula/models.h>
#include <facula/optim.h>
#include <facula/parallel.h>
#include <facula/train.h>

#include "train/checkpoint_writer.h"

namespace {

using namespace facula;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kBatch = 32;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The state that such a run has.
StateDict state_of(nn::Module& model, optim::Optimizer& optimizer) {
  StateDict state;
  state.set("model", model.state_dict());
  state.set("optimizer", optimizer.state_dict());
  return state;
}

void measure_parts(const StateDict& state, const std::string& folder) {
  std::int64_t bytes = 0;
  for (const auto& [name, value] : state.flat()) {
    if (const auto* tensor = value->get_if<Tensor>()) bytes += tensor->nbytes();
  }
  std::vector<double> copying, writing;
  for (int repeat = 0; repeat < 9; ++repeat) {
    auto start = Clock::now();
    const StateDict copy = train::snapshot_of(state);
    copying.push_back(seconds_since(start));
    start = Clock::now();
    save_checkpoint(copy, folder + "/parts.safetensors");
    writing.push_back(seconds_since(start));
  }
  std::filesystem::remove(folder + "/parts.safetensors");
  fmt::print(
      "state {:.1f} MB; snapshot {:.1f} ms ({:.3f} % of 60 s), {:.1f} GB/s; "
      "checksums, writing and fsync, by the thread in the background: {:.0f} ms\n",
      static_cast<double>(bytes) / 1e6, 1e3 * median(copying), 100 * median(copying) / 60,
      static_cast<double>(bytes) / 1e9 / median(copying), 1e3 * median(writing));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') {
    fmt::print(stderr, "usage: bench_checkpoint FOLDER [PERIODS [STEPS]]\n");
    return 2;
  }
  const std::string folder = argv[1];
  const std::int64_t periods = argc > 2 ? std::atoi(argv[2]) : 12;
  const std::int64_t steps = argc > 3 ? std::atoi(argv[3]) : 12;
  const std::int64_t all = (periods + 1) * steps;

  nn::AnyModule model = models::create("resnet18-cifar", 10);
  optim::Adam optimizer(model->parameters(), {.lr = 1e-4});
  const auto images = randint(0, 255, {all * kBatch, 3, 32, 32}).to(kUInt8);
  const auto labels = randint(0, 10, {all * kBatch});
  const data::DataLoader loader(
      data::from_tensors(images, labels, 10),
      {.batch_size = kBatch, .transform = data::transforms::ToTensor(), .num_workers = 0});
  std::vector<double> times;
  auto last = Clock::now();
  train::TrainerOptions options{
      .run_folder = folder + "/run",
      .checkpoints = {.every_seconds = 0, .every_steps = steps, .every_epoch = false},
      .start = train::Start::overwrite};
  options.on_step = [&](const train::StepReport&) {
    times.push_back(seconds_since(last));
    last = Clock::now();
  };
  train::Trainer(*model, optimizer, options).fit(loader);
  measure_parts(state_of(*model, optimizer), folder);

  std::vector<double> costs, halves;
  for (std::int64_t period = 1; period <= periods; ++period) {
    double with = 0, without = 0;
    for (std::int64_t i = 0; i < steps; ++i) {
      // The report of a step comes before its checkpoint: that is part of the next one's time.
      (i < steps / 2 ? with : without) += times[static_cast<std::size_t>(period * steps + i)];
    }
    costs.push_back(with - without);
    halves.push_back(without);
  }
  const double cost = median(costs), half = median(halves);
  fmt::print(
      "{} checkpoints, one every {} steps or {:.1f} s: each costs {:.0f} ms of training, "
      "{:.2f} % of throughput at one a minute, {:.1f} % here ({} threads, batch {})\n",
      periods, steps, 2 * half, 1e3 * cost, 100 * cost / 60, 100 * cost / (2 * half),
      get_num_threads(), kBatch);
  std::filesystem::remove_all(folder + "/run");
  return 0;
}
