// What `facula data bench mnist:...` would take if nothing but its arithmetic were there: images
// picked in random order, converted and normalised into the memory of a batch that is used again,
// and every element read once. Knows nothing of the library.
//
//   bench_gather_loop [THREADS]      seconds for 4 epochs of 60,000 images of 28x28, batch 64
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

namespace {

constexpr std::int64_t kImages = 60000, kPixels = 28 * 28, kBatch = 64, kLanes = 64;
constexpr int kEpochs = 4, kRepeats = 15;

/// Makes and reads the batches of `order`.
double run(const std::vector<std::uint8_t>& images, const std::int64_t* order, std::int64_t count) {
  std::vector<float> batch(kBatch * kPixels);
  float lanes[kLanes] = {};
  for (std::int64_t first = 0; first < count; first += kBatch) {
    const std::int64_t size = std::min(kBatch, count - first);
    for (std::int64_t i = 0; i < size; ++i) {
      const std::uint8_t* source = images.data() + order[first + i] * kPixels;
      float* place = batch.data() + i * kPixels;
      for (std::int64_t p = 0; p < kPixels; ++p) {
        place[p] = static_cast<float>(source[p]) * 0.0127f - 0.4242f;
      }
    }
    for (std::int64_t i = 0; i + kLanes <= size * kPixels; i += kLanes) {
      for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] += batch[static_cast<std::size_t>(i + l)];
    }
  }
  return std::accumulate(lanes, lanes + kLanes, 0.0);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 2;
  std::vector<std::uint8_t> images(kImages * kPixels);
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<std::uint8_t>(i * 31);
  std::vector<std::int64_t> order(kImages);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(1));

  std::vector<double> seconds, sums(static_cast<std::size_t>(threads));
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      std::vector<std::thread> crew;
      for (int t = 0; t < threads; ++t) {
        crew.emplace_back([&, t] {
          const std::int64_t begin = kImages * t / threads, end = kImages * (t + 1) / threads;
          sums[static_cast<std::size_t>(t)] += run(images, order.data() + begin, end - begin);
        });
      }
      for (std::thread& thread : crew) thread.join();
    }
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("%d threads: %.4f s (best %.4f), sum %g\n", threads, seconds[seconds.size() / 2],
              seconds[0], std::accumulate(sums.begin(), sums.end(), 0.0));
}
