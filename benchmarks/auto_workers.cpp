// The automatic number of loader workers against an exhaustive sweep, on three kinds of loops: one
// that only reads its batches, one whose computing takes as long as making them, and one whose
// computing takes ten times as long.
//
//   bench_auto_workers KIND:PATH TRANSFORM [BATCH] [ROUNDS]
//
// Every round makes a loader of each setting, up to 2 workers more than there are CPUs, and lets
// the automatic one decide. Then all take turns of a few hundredths of a second, in random order;
// a turn begins with a new epoch and batches that do not count. A setting is compared with the
// automatic one by the median of the quotients of neighbouring turns, since a shared machine may
// have two cores in one second and little more than one in the next.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
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

constexpr std::int64_t kLongestSearch = 5000, kWarmUp = 4, kLeastTimed = 3;  // batches
constexpr double kTurnSeconds = 0.04;                                        // at least
constexpr int kTurns = 5;                                                    // of each, in a round
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

/// A loop over the batches of a loader, epoch after epoch.
class Loop {
 public:
  Loop(const data::ImageDatasetPtr& set, const std::string& transform, std::int64_t batch,
       int workers, const Work& work, std::int64_t products)
      : loader_(set, {.batch_size = batch,
                      .shuffle = true,
                      .drop_last = true,
                      .transform =
                          data::transforms::by_name(transform, set->info().mean, set->info().std),
                      .num_workers = workers}),
        work_(work),
        products_(products) {}

  /// Returns the batches it took kAuto to decide.
  std::int64_t settle() {
    std::int64_t steps = 0;
    for (; loader_.decision().empty() && steps < kLongestSearch; ++steps) step();
    epoch_.reset();
    return steps;
  }

  void take_turn() {
    for (std::int64_t i = 0; i < kWarmUp; ++i) step();
    const auto start = Clock::now();
    std::int64_t steps = 0;
    for (; steps < kLeastTimed || seconds_since(start) < kTurnSeconds; ++steps) step();
    turns_.push_back(seconds_since(start) / static_cast<double>(steps));
    epoch_.reset();
  }

  /// Seconds a batch took, by turn.
  const std::vector<double>& turns() const { return turns_; }
  std::string decision() const { return loader_.decision(); }

 private:
  void step() {
    data::Batch batch;
    while (!epoch_ || !epoch_->next(batch)) epoch_.emplace(loader_.epoch(next_epoch_++));
    batch[0].sum();
    work_.run(products_);
  }

  const data::DataLoader loader_;
  const Work& work_;
  const std::int64_t products_;
  std::optional<data::Epoch> epoch_;
  std::int64_t next_epoch_ = 0;
  std::vector<double> turns_;
};

void compare(const char* name, const data::ImageDatasetPtr& set, const std::string& transform,
             std::int64_t batch, int rounds, const Work& work, std::int64_t products) {
  std::vector<int> settings = {data::kAuto};
  for (int workers = 0; workers <= get_num_threads() + 2; ++workers) settings.push_back(workers);
  std::map<int, std::vector<double>> seconds, quotients;
  fmt::print("{}: {} products of {}x{} a batch\n", name, products, kSide, kSide);
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::unique_ptr<Loop>> loops;
    for (const int workers : settings) {
      loops.push_back(std::make_unique<Loop>(set, transform, batch, workers, work, products));
    }
    const std::int64_t searched = loops[0]->settle();
    for (int turn = 0; turn < kTurns; ++turn) {
      for (const std::int64_t place : randperm(std::ssize(loops)).to_vector<std::int64_t>()) {
        loops[static_cast<std::size_t>(place)]->take_turn();
      }
    }
    for (std::size_t i = 0; i < loops.size(); ++i) {
      for (std::size_t turn = 0; turn < kTurns; ++turn) {
        const double ours = loops[0]->turns()[turn], theirs = loops[i]->turns()[turn];
        seconds[settings[i]].push_back(theirs);
        quotients[settings[i]].push_back(ours / theirs);
      }
    }
    fmt::print("  after {} batches: {}\n", searched, loops[0]->decision());
  }
  for (const int workers : settings) {
    fmt::print("  {:>4} workers {:9.3f} ms a batch, of which auto takes {:.3f}\n",
               workers == data::kAuto ? "auto" : std::to_string(workers),
               1e3 * median(seconds[workers]), median(quotients[workers]));
  }
}

int run(const std::string& kind_and_path, const std::string& transform, std::int64_t batch,
        int rounds) {
  const auto set = data::open(kind_and_path, data::Part::train);
  const Work work;
  const double product = work.seconds_of_one();
  Loop loading(set, transform, batch, 0, work, 0);
  for (int turn = 0; turn < kTurns; ++turn) loading.take_turn();
  const double made = median(loading.turns());
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
