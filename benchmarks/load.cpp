// Loading files of weights that lie in the page cache, against memcpy of as many bytes by the same
// threads.
//
//   bench_load [FOLDER] [GB]     where to put the files (/tmp), their size (1)
//
// Every load follows a memcpy, into memory of the same kind: used before, as in a program that has
// freed some, or new from the system, as in one that has just begun. The median of the ratios
// counts: the bandwidth of a shared machine changes from second to second. The time that the
// threads computed, together and at the least, is what tells two versions apart where others
// compute too.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include <facula/memory.h>
#include <facula/ops.h>
#include <facula/parallel.h>
#include <facula/safetensors.h>
#include <facula/torch_file.h>

#include "base/thread_pool.h"

namespace {

using namespace facula;

constexpr int kRounds = 9, kTensors = 100;
constexpr std::int64_t kSlice = 1 << 20;

template <class Work>
double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void copy(const Tensor& to, const Tensor& from) {
  auto* target = static_cast<char*>(to.raw_data());
  const auto* source = static_cast<const char*>(from.raw_data());
  const std::int64_t bytes = from.nbytes();
  base::parallel_for((bytes + kSlice - 1) / kSlice, [&](std::int64_t k) {
    const std::int64_t count = std::min(kSlice, bytes - k * kSlice);
    std::memcpy(target + k * kSlice, source + k * kSlice, static_cast<std::size_t>(count));
  });
}

using Load = StateDict (*)(const std::string& path);

/// What any load does at least: memcpy from the mapped file into new tensors.
StateDict copy_mapped(const std::string& path) {
  const StateDict mapped = SafetensorsFile(path).state_dict();
  std::vector<Tensor> from, to;
  for (const auto& [name, value] : mapped.flat()) {
    from.push_back(*value->get_if<Tensor>());
    to.push_back(empty_like(from.back()));
  }
  base::parallel_for(static_cast<std::int64_t>(from.size()), [&](std::int64_t i) {
    std::memcpy(to[i].raw_data(), from[i].raw_data(), static_cast<std::size_t>(from[i].nbytes()));
  });
  return mapped;
}

void compare(const std::string& what, Load load, const std::string& path, const Tensor& source,
             bool new_memory) {
  std::vector<double> copies, loads, ratios, computing;
  for (int round = -1; round < kRounds; ++round) {
    if (new_memory) cpu::empty_cache();
    const double by_copy = seconds([&] { copy(empty_like(source), source); });
    if (new_memory) cpu::empty_cache();
    const double computed = cpu_seconds();
    const double by_load = seconds([&] { load(path); });
    computing.push_back(cpu_seconds() - computed);
    if (round < 0) continue;  // fills the allocator's cache
    copies.push_back(by_copy);
    loads.push_back(by_load);
    ratios.push_back(by_copy / by_load);
  }
  const double gb = 1e-9 * static_cast<double>(source.nbytes());
  std::printf(
      "%-34s %7.1f ms, %5.2f GB/s; memcpy %5.2f GB/s: %3.0f %% (%.0f..%.0f); %.2f GB per second "
      "of one thread\n",
      what.c_str(), 1e3 * median(loads), gb / median(loads), gb / median(copies),
      100 * median(ratios), 100 * *std::min_element(ratios.begin(), ratios.end()),
      100 * *std::max_element(ratios.begin(), ratios.end()),
      gb / *std::min_element(computing.begin(), computing.end()));
}

void measure_mapping(const std::string& path) {
  std::vector<double> opened, summed;
  for (int round = 0; round < kRounds; ++round) {
    StateDict state;
    opened.push_back(seconds([&] { state = SafetensorsFile(path).state_dict(); }));
    summed.push_back(seconds([&] {
      for (const auto& [name, value] : state.flat()) value->get_if<Tensor>()->sum().item();
    }));
  }
  std::printf("%-34s %7.3f ms; the first sum of all elements %.1f ms\n", "mapped, all tensors",
              1e3 * median(opened), 1e3 * median(summed));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "/tmp";
  const double gb = argc > 2 ? std::atof(argv[2]) : 1;
  const auto rows = std::max(static_cast<std::int64_t>(gb * 1e9 / 4 / kTensors), std::int64_t{1});
  const Tensor source = zeros({kTensors, rows}).fill_(1);
  StateDict state;
  for (int i = 0; i < kTensors; ++i) state.set("layer" + std::to_string(i), source[i].clone());
  std::printf("%.2f GB in %d tensors, %d threads, medians of %d rounds\n",
              1e-9 * static_cast<double>(source.nbytes()), kTensors, get_num_threads(), kRounds);
  const std::string weights = folder + "/facula-bench.safetensors",
                    pth = folder + "/facula-bench.pth";
  save_safetensors(state, weights);
  compare("load_safetensors, memory used before", load_safetensors, weights, source, false);
  compare("load_safetensors, new memory", load_safetensors, weights, source, true);
  compare("memcpy of its pages, new memory", copy_mapped, weights, source, true);
  measure_mapping(weights);
  std::remove(weights.c_str());
  save_torch(state, pth);
  compare("load_torch, memory used before", load_torch, pth, source, false);
  compare("load_torch, new memory", load_torch, pth, source, true);
  std::remove(pth.c_str());
}
