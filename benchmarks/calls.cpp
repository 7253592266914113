// Calls that read or write little, whose time is that of getting at it: fills, random numbers,
// gathered entries, averages of images. pytorch/calls.py times the same in PyTorch.
//
//   bench_calls [--benchmark_filter=NAME]     milliseconds, all threads, operands in the caches
#include <benchmark/benchmark.h>

#include <functional>

#include <facula/autograd.h>
#include <facula/ops.h>

namespace {

using namespace facula;

void add(const char* name, std::function<void()> call) {
  benchmark::RegisterBenchmark(name,
                               [call = std::move(call)](benchmark::State& state) {
                                 const NoGradGuard no_grad;
                                 for (auto _ : state) call();
                               })
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}

void add_average(const char* name, IntList sizes, std::int64_t wanted, MemoryFormat format) {
  add(name, [images = randn(sizes).contiguous(format), wanted] {
    adaptive_avg_pool2d(images, {wanted});
  });
}

void add_all() {
  constexpr std::int64_t kMany = 1'000'000;
  const Tensor x = randn({kMany});
  add("fill_", [=] { x.fill_(1); });
  add("zeros", [] { zeros({kMany}); });
  add("arange", [] { arange(kMany); });
  add("randint", [] { randint(0, 100, {kMany}); });
  add("randn", [] { randn({kMany}); });
  add("dropout", [=] { dropout(x, 0.5); });
  const Tensor rows = randn({4096, 1000}), index = randint(0, 1000, {4096, 1});
  add("gather", [=] { gather(rows, 1, index); });
  add_average("average 128x512x4x4", {128, 512, 4, 4}, 1, kContiguous);
  add_average("average 128x256x8x8", {128, 256, 8, 8}, 1, kContiguous);
  add_average("average 128x16x28x28", {128, 16, 28, 28}, 1, kContiguous);
  add_average("average 128x16x28x28 channels_last", {128, 16, 28, 28}, 1, kChannelsLast);
  add_average("5x5 averages 32x64x56x56 channels_last", {32, 64, 56, 56}, 5, kChannelsLast);
  add_average("5x5 averages 1x64x112x112 channels_last", {1, 64, 112, 112}, 5, kChannelsLast);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  add_all();
  benchmark::RunSpecifiedBenchmarks();
}
