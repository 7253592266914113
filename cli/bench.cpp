// `facula bench`.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include <facula/json_line.h>
#include <facula/parallel.h>
#include <facula/system.h>

#include "cli/commands.h"
#include "cli/machine_limits.h"
#include "cli/works.h"

namespace facula::cli {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

WorkResult run_work(const BenchOptions& options) {
  if (contains(model_works(), options.work)) {
    return run_model_work(options.work, options.mode == "train", options.batch, options.seconds);
  }
  if (options.batch != 0 || options.mode != "train") {
    throw UsageError(fmt::format("bench: {} knows neither --batch nor --infer", options.work));
  }
  if (contains(optimizer_works(), options.work)) {
    return run_optimizer_work(options.work, options.seconds);
  }
  return run_small_work(options.work, options.seconds);
}

/// The machine's limit for the work, measured in this process with as many
/// threads, after the work: its memory does not count as the work's.
struct Share {
  double gflops = std::nan(""), percent_of_peak = std::nan("");
  double gb_per_s = std::nan(""), inplace_gb_s = std::nan("");
  double percent_of_bandwidth = std::nan("");
};

/// A step after every pass over memory: the bandwidth of a shared machine changes from second to
/// second, and the ratio of neighbours less than either. Pins the caller as the pool pins its
/// workers: pushed onto a worker's CPU by the threads of a pass, it would stay there for a while.
void compare_with_bandwidth(const WorkResult& result, const std::vector<int>& cpus, Share& share) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kFewest = 3, kMost = 25;
  constexpr double kSeconds = 2;
  machine::Array array;
  std::vector<double> limits, percents;
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  machine::pin_to(cpus.front());
  const auto begin = Clock::now();
  while (limits.size() < kFewest || (limits.size() < kMost && seconds_since(begin) < kSeconds)) {
    limits.push_back(machine::inplace_gb_s(cpus, array, 1).median);
    result.step();  // wakes the threads, as the pass was warmed up
    const auto start = Clock::now();
    result.step();
    percents.push_back(100 * *result.bytes * 1e-9 / seconds_since(start) / limits.back());
  }
  share.inplace_gb_s = median(std::move(limits));
  share.percent_of_bandwidth = median(std::move(percents));
}

Share share_of_machine(const WorkResult& result, std::vector<int> cpus) {
  cpus.resize(std::min(cpus.size(), static_cast<std::size_t>(get_num_threads())));
  const double seconds = result.measurement.median_ms * 1e-3;
  Share share;
  if (result.flops) {
    share.gflops = *result.flops / seconds * 1e-9;
    share.percent_of_peak = 100 * share.gflops / machine::fma_gflops(cpus).median;
  }
  if (result.bytes) {
    share.gb_per_s = *result.bytes / seconds * 1e-9;
    try {
      compare_with_bandwidth(result, cpus, share);
    } catch (const OutOfMemory& error) {
      // What has been measured until now is told all the same.
      std::fputs(
          fmt::format("bench: the share of the bandwidth is unknown: {}\n", error.what()).c_str(),
          stderr);
    }
  }
  return share;
}

std::string to_json(const BenchOptions& options, const WorkResult& result, const Share& share) {
  const Measurement& m = result.measurement;
  JsonLine line;
  line.add("work", options.work)
      .add("mode", contains(model_works(), options.work) ? options.mode : "step")
      .add("dtype", options.dtype);
  // Steps of an optimizer have none.
  result.batch ? line.add("batch", *result.batch) : line.add("batch", std::nan(""));
  line.add("threads", get_num_threads())
      .add("isa", system_info().isa)
      .add("steps", m.steps)
      .add("median_ms", m.median_ms)
      .add("min_ms", m.min_ms)
      .add("max_ms", m.max_ms);
  if (result.median_ns) line.add("median_ns", *result.median_ns);
  if (result.forward_ns) line.add("forward_ns", *result.forward_ns);
  if (result.backward_ns) line.add("backward_ns", *result.backward_ns);
  line.add("items_per_s", result.items_per_s)
      .add("gflops", share.gflops)
      .add("percent_of_peak", share.percent_of_peak);
  if (result.bytes) {
    line.add("gb_per_s", share.gb_per_s)
        .add("inplace_gb_s", share.inplace_gb_s)
        .add("percent_of_bandwidth", share.percent_of_bandwidth);
  }
  return line.add("peak_rss_mib", m.peak_rss_mib)
      .add("minor_faults_per_step", m.minor_faults_per_step)
      .add("loss_first", m.loss_first)
      .add("loss_last", m.loss_last)
      .add("cpu_over_wall", m.cpu_over_wall)
      .str();
}

void print_table(const BenchOptions& options, const WorkResult& result, const Share& share) {
  const Measurement& m = result.measurement;
  fmt::print("{}, {} steps, {} threads\n", options.work, m.steps, get_num_threads());
  fmt::print("  {:.6g} ms ({:.6g} to {:.6g}), {:.6g} items/s\n", m.median_ms, m.min_ms, m.max_ms,
             result.items_per_s);
  if (result.forward_ns) {
    fmt::print("  per op or row: {:.1f} ns forward, {:.1f} ns backward\n", *result.forward_ns,
               *result.backward_ns);
  }
  if (result.flops) {
    fmt::print("  {:.1f} GFLOP/s, {:.1f} % of the measured peak\n", share.gflops,
               share.percent_of_peak);
  }
  if (result.bytes) {
    fmt::print("  {:.1f} GB/s", share.gb_per_s);
    if (!std::isnan(share.inplace_gb_s)) {
      fmt::print("; step by step {:.1f} % of the bandwidth in place, {:.1f} GB/s",
                 share.percent_of_bandwidth, share.inplace_gb_s);
    }
    fmt::print("\n");
  }
  fmt::print("  {:.0f} MiB at most, {:.3g} page faults per step, {:.2f} cores busy\n",
             m.peak_rss_mib, m.minor_faults_per_step, m.cpu_over_wall);
  if (!std::isnan(m.loss_first)) {
    fmt::print("  loss {:.6g} at first, {:.6g} at last\n", m.loss_first, m.loss_last);
  }
}

}  // namespace

std::vector<std::string> bench_works() {
  std::vector<std::string> names = model_works();
  names.insert(names.end(), optimizer_works().begin(), optimizer_works().end());
  names.insert(names.end(), small_works().begin(), small_works().end());
  return names;
}

int run_bench(const BenchOptions& options) {
  const std::vector<int> cpus = machine::usable_cpus();  // before any thread is pinned
  if (options.threads > 0) set_num_threads(options.threads);
  const WorkResult result = run_work(options);
  const Share share = share_of_machine(result, cpus);
  if (options.json) {
    fmt::print("{}\n", to_json(options, result, share));
  } else {
    print_table(options, result, share);
  }
  return 0;
}

}  // namespace facula::cli
