// `facula data`: measuring the input pipeline and converting data sets.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include <facula/data.h>
#include <facula/json_line.h>
#include <facula/parallel.h>

#include "cli/commands.h"
#include "cli/machine_limits.h"
#include "cli/measure.h"

namespace facula::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// One measurement: all epochs, made and read.
struct Pass {
  double seconds = 0;
  double sum = 0;  // of all elements that the consumer has read
  std::int64_t samples = 0, elements = 0;
  std::string decision;
};

Pass run_pass(const data::ImageDatasetPtr& set, const DataBenchOptions& options, int workers,
              int pin_memory = data::kAuto) {
  const data::ImageSetInfo& info = set->info();
  const data::DataLoader loader(
      set, {.batch_size = options.batch,
            .shuffle = true,
            .seed = 1,
            .transform = data::transforms::by_name(options.transform, info.mean, info.std),
            .num_workers = workers,
            .pin_memory = pin_memory});
  Pass pass;
  const auto start = Clock::now();
  for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    for (auto& [input, target] : loader.epoch(epoch)) {
      pass.sum += input.sum().item<double>();
      pass.samples += input.size(0);
      pass.elements += input.numel();
    }
  }
  pass.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  pass.decision = loader.decision();
  return pass;
}

std::string workers_name(int workers) {
  return workers == data::kAuto ? "auto" : std::to_string(workers);
}

struct Report {
  Pass pass;  // the last one, with the median of the times
  data::StageSeconds stages;
  double mb_per_s = 0;  // of the tensors made
  double limit_seconds = 0;
  std::string limit, bottleneck;
};

/// What the machine would need at least: for the bytes of the pixels, read once, and of the
/// tensors, written and read once, at the bandwidth in place; or for decoding alone on all CPUs.
void compare_with_limit(Report& report, const std::vector<int>& cpus) {
  const data::StageSeconds& stages = report.stages;
  if (stages.decode > 0) {
    report.limit = "decoding on all CPUs";
    report.limit_seconds = stages.decode / static_cast<double>(cpus.size());
    return;
  }
  machine::Array array;
  const double gb_per_s = machine::inplace_gb_s(cpus, array).median;
  report.limit = fmt::format("memory bandwidth of {:.1f} GB/s", gb_per_s);
  report.limit_seconds = 9e-9 * static_cast<double>(report.pass.elements) / gb_per_s;
}

/// Of a loop that makes batches with so many threads; `alone_seconds` is what it took with one.
void find_bottleneck(Report& report, double alone_seconds, int makers) {
  const data::StageSeconds& stages = report.stages;
  const std::pair<double, const char*> parts[] = {{stages.read, "reading"},
                                                  {stages.transform, "transforms"},
                                                  {stages.decode, "decoding"},
                                                  {stages.write, "cropping and converting"}};
  const auto largest = std::max_element(std::begin(parts), std::end(parts));
  const double made = stages.read + stages.transform + stages.decode + stages.write;
  report.bottleneck = made / makers < alone_seconds - made
                          ? "the loop that uses the batches and hands over"
                          : largest->second;
}

Report measure(const data::ImageDatasetPtr& set, const DataBenchOptions& options,
               const std::vector<int>& cpus) {
  Report report;
  std::vector<double> seconds;
  for (int i = 0; i < options.repeat; ++i) {
    report.pass = run_pass(set, options, options.workers);
    seconds.push_back(report.pass.seconds);
  }
  // Measuring the stages costs time itself: in a pass of its own.
  data::measure_stages(true);
  const double alone_seconds = run_pass(set, options, 0).seconds;
  data::measure_stages(false);
  report.stages = data::stage_seconds();
  report.pass.seconds = median(seconds);
  report.mb_per_s = 4e-6 * static_cast<double>(report.pass.elements) / report.pass.seconds;
  compare_with_limit(report, cpus);
  const int cpu_count = static_cast<int>(cpus.size());
  const int most = options.workers == data::kAuto ? cpu_count : options.workers;
  find_bottleneck(report, alone_seconds, std::clamp(most, 1, cpu_count));
  return report;
}

void print_report(const DataBenchOptions& options, const Report& report) {
  const Pass& pass = report.pass;
  fmt::print("{} samples in {:.4g} s: {:.0f} samples/s, {:.0f} MB/s of tensors\n", pass.samples,
             pass.seconds, static_cast<double>(pass.samples) / pass.seconds, report.mb_per_s);
  fmt::print("{:.1f} % of the limit: {:.4g} s by {}\n", 100 * report.limit_seconds / pass.seconds,
             report.limit_seconds, report.limit);
  const data::StageSeconds& stages = report.stages;
  fmt::print(
      "of one thread, in us per sample: read {:.2f}, transform {:.2f}, decode {:.2f}, crop and "
      "convert {:.2f}\n",
      1e6 * stages.read / static_cast<double>(pass.samples),
      1e6 * stages.transform / static_cast<double>(pass.samples),
      1e6 * stages.decode / static_cast<double>(pass.samples),
      1e6 * stages.write / static_cast<double>(pass.samples));
  fmt::print("bottleneck: {}\n", report.bottleneck);
  if (!pass.decision.empty()) fmt::print("{}\n", pass.decision);
  fmt::print("sum of all elements: {:.9g} (workers {})\n", pass.sum, workers_name(options.workers));
}

void print_json(const DataBenchOptions& options, const Report& report) {
  const Pass& pass = report.pass;
  fmt::print("{}\n", JsonLine()
                         .add("kind", options.data.substr(0, options.data.find(':')))
                         .add("transform", options.transform)
                         .add("batch", options.batch)
                         .add("epochs", options.epochs)
                         .add("workers", workers_name(options.workers))
                         .add("threads", get_num_threads())
                         .add("samples", pass.samples)
                         .add("seconds", pass.seconds)
                         .add("samples_per_s", static_cast<double>(pass.samples) / pass.seconds)
                         .add("mb_per_s", report.mb_per_s)
                         .add("percent_of_limit", 100 * report.limit_seconds / pass.seconds)
                         .add("limit", report.limit)
                         .add("bottleneck", report.bottleneck)
                         .add("read_s", report.stages.read)
                         .add("transform_s", report.stages.transform)
                         .add("decode_s", report.stages.decode)
                         .add("write_s", report.stages.write)
                         .add("decision", pass.decision)
                         .add("sum", pass.sum)
                         .str());
}

/// Seconds for every number of workers, without and with pinned memory, taken in turn.
void print_sweep(const data::ImageDatasetPtr& set, const DataBenchOptions& options) {
  std::vector<int> workers = {data::kAuto, 0};
  const int most = 2 * get_num_threads();
  for (int n = 1; n <= most; n = n < 8 ? n + 1 : 2 * n) workers.push_back(n);
  std::vector<std::vector<double>> seconds(2 * workers.size());
  for (int i = 0; i < options.repeat; ++i) {
    for (std::size_t w = 0; w < workers.size(); ++w) {
      for (int pin : {0, 1}) {
        seconds[2 * w + static_cast<std::size_t>(pin)].push_back(
            run_pass(set, options, workers[w], pin).seconds);
      }
    }
  }
  fmt::print("{:>11}  {:>14}  {:>14}\n", "num_workers", "pin_memory off", "pin_memory on");
  for (std::size_t w = 0; w < workers.size(); ++w) {
    fmt::print("{:>11}  {:>12.4g} s  {:>12.4g} s\n", workers_name(workers[w]),
               median(seconds[2 * w]), median(seconds[2 * w + 1]));
  }
}

}  // namespace

data::ImageDatasetPtr open_data(const std::string& kind_and_path, data::Part part) {
  const std::string kind = kind_and_path.substr(0, kind_and_path.find(':'));
  const auto& kinds = data::kinds();
  if (kind == kind_and_path || std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    throw UsageError(fmt::format("data '{}' is not KIND:PATH with one of the kinds {}",
                                 kind_and_path, fmt::join(kinds, ", ")));
  }
  return data::open(kind_and_path, part);
}

int run_data_bench(const DataBenchOptions& options) {
  const std::vector<int> cpus = machine::usable_cpus();
  const data::ImageDatasetPtr set = open_data(options.data, data::Part::train);
  if (options.sweep) {
    print_sweep(set, options);
    return 0;
  }
  const Report report = measure(set, options, cpus);
  if (options.json) {
    print_json(options, report);
  } else {
    print_report(options, report);
  }
  return 0;
}

int run_data_pack(const DataPackOptions& options) {
  const data::Part part = options.part == "train" ? data::Part::train : data::Part::test;
  const data::ImageDatasetPtr set = open_data(options.data, part);
  std::signal(SIGPIPE, SIG_IGN);  // whoever reads the messages may end at the same Ctrl-C
  const int signal = data::pack(*set, options.out,
                                {.shorter_side = options.shorter_side, .stop_on_interrupt = true});
  if (signal != 0) {
    std::fputs(fmt::format("interrupted; '{}' is as it was\n", options.out).c_str(), stderr);
    return kSignalled + signal;
  }
  fmt::print("{} images are in {}\n", set->size(), options.out);
  return 0;
}

}  // namespace facula::cli
