// The automatic number of loader workers against an exhaustive sweep, on three kinds of loops: one
// that only reads its batches, one whose computing takes as long as making them, and one whose
// computing takes ten times as long.
//
//   bench_auto_workers KIND:PATH TRANSFORM [BATCH] [ROUNDS]
//
// Every round runs every setting, up to 2 workers more than there are CPUs. Times are of the
// batches after kAuto has decided, which takes as many batches as are printed; other settings warm
// up meanwhile.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <facula/autograd.h>
#include <facula/data.h>
#include <facula/error.h>
#include <facula/ops.h>
#include <facula/parallel.h>

namespace {

using namespace facula;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kWarmUp = 40, kLongestSearch = 5000, kLeastTimed = 20;  // batches
constexpr double kTimedSeconds = 0.5;                                          // at least
constexpr std::int64_t kSide = 256;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Computing on all threads, as a training step does: so many products of matrices.
struct Work {
  Tensor a = randn({kSide, kSide}), b = randn({kSide, kSide});

  void run(std::int64_t products) const {
    for (std::int64_t i = 0; i < products; ++i) mm(a, b);
  }
  double seconds_of_one() const {
    run(50);
    const auto start = Clock::now();
    run(500);
    return seconds_since(start) / 500;
  }
};

struct Time {
  double seconds = 0;         ///< per batch
  std::int64_t searched = 0;  ///< batches before the first that counts
  std::string decision;
};

/// Goes through batches, epoch after epoch, until enough have been timed.
Time run_loop(const data::ImageDatasetPtr& set, const std::string& transform, std::int64_t batch,
              int workers, const Work& work, std::int64_t products) {
  const data::ImageSetInfo& info = set->info();
  const data::DataLoader loader(
      set, {.batch_size = batch,
            .shuffle = true,
            .drop_last = true,
            .transform = data::transforms::by_name(transform, info.mean, info.std),
            .num_workers = workers});
  const auto settled = [&](std::int64_t count) {
    if (workers != data::kAuto) return count >= kWarmUp;
    return !loader.decision().empty() || count >= kLongestSearch;
  };
  Time time;
  bool timing = false;
  std::int64_t count = 0;
  Clock::time_point start;
  for (std::int64_t epoch = 0;; ++epoch) {
    for (const data::Batch& made : loader.epoch(epoch)) {
      made[0].sum();
      work.run(products);
      ++count;
      const std::int64_t timed = count - time.searched;
      const double seconds = timing ? seconds_since(start) : 0;
      if (seconds >= kTimedSeconds && timed >= kLeastTimed) {
        time.seconds = seconds / static_cast<double>(timed);
        time.decision = loader.decision();
        return time;
      }
      if (timing || !settled(count)) continue;
      timing = true;
      time.searched = count;
      start = Clock::now();
    }
  }
}

void compare(const char* name, const data::ImageDatasetPtr& set, const std::string& transform,
             std::int64_t batch, int rounds, const Work& work, std::int64_t products) {
  std::vector<int> settings = {data::kAuto};
  for (int workers = 0; workers <= get_num_threads() + 2; ++workers) settings.push_back(workers);
  std::map<int, std::vector<double>> seconds;
  std::vector<double> searched;
  std::string decision;
  for (int round = 0; round < rounds; ++round) {
    for (const int workers : settings) {
      const Time time = run_loop(set, transform, batch, workers, work, products);
      seconds[workers].push_back(time.seconds);
      if (workers != data::kAuto) continue;
      searched.push_back(static_cast<double>(time.searched));
      decision = time.decision;
    }
  }
  fmt::print("{}: {} products of {}x{} a batch\n", name, products, kSide, kSide);
  double best = 1e30;
  for (const int workers : settings) {
    const double ms = 1e3 * median(seconds[workers]);
    fmt::print("  {:>4} workers {:9.3f} ms a batch\n",
               workers == data::kAuto ? "auto" : std::to_string(workers), ms);
    if (workers != data::kAuto) best = std::min(best, ms);
  }
  const double ours = 1e3 * median(seconds[data::kAuto]);
  fmt::print("  auto takes {:.3f} of the best, {:.3f} of 0 workers, after {} batches; {}\n",
             ours / best, ours / (1e3 * median(seconds[0])), median(searched), decision);
}

int run(const std::string& kind_and_path, const std::string& transform, std::int64_t batch,
        int rounds) {
  const auto set = data::open(kind_and_path, data::Part::train);
  const Work work;
  const double product = work.seconds_of_one();
  const double made = run_loop(set, transform, batch, 0, work, 0).seconds;
  const auto products = [&](double times) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(times * made / product));
  };
  compare("loading alone", set, transform, batch, rounds, work, 0);
  compare("balanced", set, transform, batch, rounds, work, products(1));
  compare("computing", set, transform, batch, rounds, work, products(10));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: bench_auto_workers KIND:PATH TRANSFORM [BATCH] [ROUNDS]\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2], argc > 3 ? std::atoll(argv[3]) : 64,
               argc > 4 ? std::atoi(argv[4]) : 7);
  } catch (const Error& error) {
    fmt::print(stderr, "bench_auto_workers: {}\n", error.what());
    return 1;
  }
}
