#include "data/worker_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace facula::data {
namespace {

/// A machine of some CPUs on which making a batch costs `making` seconds of one thread and using it
/// `use` seconds during which `busy` CPUs work.
struct Machine {
  int cpus;
  double making, use, busy;
  double spread = 0;    // of the measurements, relative
  double handover = 0;  // seconds that threads lose to each other with every batch

  double period(const WorkerSetting& setting) const {
    if (setting == WorkerSetting{}) return making + use;
    if (setting.pool) return handover + making / cpus + use;
    return handover + std::max({use, making / setting.workers, (making + use * busy) / cpus});
  }
};

/// Runs a tuner until it has decided; returns the seconds that passed.
double run(WorkerTuner& tuner, const Machine& machine, int batches) {
  double seconds = 0;
  for (int i = 0; i < batches; ++i) {
    const double noise = 1 + machine.spread * ((i * 7919 % 101) / 50.0 - 1);
    const double period = machine.period(tuner.setting()) * noise;
    tuner.add({.period = period,
               .making = tuner.setting() == WorkerSetting{} ? machine.making * noise : 0,
               .cpu = machine.busy * machine.use * noise});
    seconds += period;
  }
  return seconds;
}

double best_of(const Machine& machine) {
  double best = machine.period({});
  best = std::min(best, machine.period({.workers = 0, .pool = true}));
  for (int n = 1; n <= machine.cpus; ++n) best = std::min(best, machine.period({.workers = n}));
  return best;
}

TEST(WorkerTuner, FindsWhatIsFastestAndLosesLittleOnTheWay) {
  const Machine machines[] = {
      {2, 10e-6, 5e-6, 1},       // a loop that only sums
      {2, 160e-3, 1e-3, 1},      // bound by decoding
      {2, 20e-3, 20e-3, 1},      // balanced, a single-threaded consumer
      {2, 3e-3, 1.0, 2},         // training on all CPUs
      {16, 160e-3, 10e-3, 0.2},  // a device that computes, many CPUs
      {16, 160e-3, 100e-3, 16}, {1, 10e-3, 10e-3, 1},
  };
  for (Machine machine : machines) {
    for (const double spread : {0.0, 0.05}) {
      machine.spread = spread;
      WorkerTuner tuner({.cpus = machine.cpus, .compute_threads = machine.cpus});
      const double seconds = run(tuner, machine, 1000);
      const std::string about = tuner.setting().str() + ", making " +
                                std::to_string(machine.making) + ", use " +
                                std::to_string(machine.use);
      EXPECT_LE(machine.period(tuner.setting()), 1.03 * best_of(machine)) << about;
      EXPECT_LE(seconds, 1.05 * 1000 * best_of(machine)) << about;
      EXPECT_FALSE(tuner.decision().empty());
    }
  }
}

TEST(WorkerTuner, FallsBackToTheCallerWhenThreadsDisappoint) {
  const Machine machine{
      .cpus = 2, .making = 1e-3, .use = 1e-3, .busy = 1, .spread = 0.02, .handover = 1.5e-3};
  WorkerTuner tuner({.cpus = 2, .compute_threads = 2});
  run(tuner, machine, 200);
  EXPECT_EQ(tuner.setting(), WorkerSetting{}) << tuner.decision();
}

TEST(WorkerTuner, ChangesItsMindWhenTheLoopChanges) {
  const Machine light{2, 1e-3, 50e-3, 2}, heavy{2, 100e-3, 1e-3, 1};
  WorkerTuner tuner({.cpus = 2, .compute_threads = 2});
  run(tuner, light, 200);
  run(tuner, heavy, 500);
  EXPECT_LE(heavy.period(tuner.setting()), 1.03 * best_of(heavy)) << tuner.decision();
}

TEST(WorkerTuner, TellsWhatItBought) {
  WorkerTuner tuner({.cpus = 2, .compute_threads = 1});
  EXPECT_EQ(tuner.decision(), "");
  run(tuner, {2, 100e-3, 50e-3, 1}, 300);
  EXPECT_EQ(tuner.decision(),
            "batches made by 2 background threads: 75 ms from one to the next; 150 ms with "
            "num_workers = 0 (2.00x)");
}

}  // namespace
}  // namespace facula::data
