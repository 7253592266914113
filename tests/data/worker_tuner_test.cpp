#include "data/worker_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace facula::data {
namespace {

/// A machine of some CPUs on which making a batch costs `making` seconds of one thread and using it
/// `use` seconds during which `busy` CPUs work.
struct Machine {
  int cpus;
  double making, use, busy;
  double spread = 0;     // of the measurements, relative
  double handover = 0;   // seconds that threads lose to each other with every batch
  double waking = 0;     // seconds that handing a batch over to the caller costs
  double waiting = 0;    // the part of `making` that leaves its CPU to others
  bool filling = false;  // threads begin by making twice their number of batches ahead
  bool bursts = false;   // threads begin, and so finish, together
  double settling = 0;  // seconds during which background threads, just begun, are a quarter slower
  double whims = 0;     // most by which everything takes longer until the setting changes again
  double mood = 0;      // seconds after which everything may take 1.8 times as long, or no more

  double period(const WorkerSetting& setting) const {
    if (setting == WorkerSetting{}) return making + use;
    if (setting.pool) return handover + making / cpus + use;
    return handover + waking +
           std::max({use, making / setting.workers, (making * (1 - waiting) + use * busy) / cpus});
  }
};

/// Runs a tuner until it has decided; returns the seconds that passed.
double run(WorkerTuner& tuner, const Machine& machine, int batches) {
  double seconds = 0, since_change = 0;
  WorkerSetting before;
  for (int i = 0, after_change = 0, changes = 0; i < batches; ++i, ++after_change) {
    if (tuner.setting() != before) {
      since_change = after_change = 0;
      ++changes;
    }
    before = tuner.setting();
    const double noise = 1 + machine.spread * ((i * 7919 % 101) / 50.0 - 1);
    const int workers = before.workers;
    double period =
        machine.period(before) * noise * (1 + machine.whims * std::fmod(78.233 * changes, 1));
    if (workers > 0 && since_change < machine.settling) period *= 1.25;
    if (machine.filling && after_change < 2 * workers) period += machine.making / machine.cpus;
    if (machine.bursts && workers > 0) {
      const double others = (workers - 1) * machine.use;  // all but the first wait for their use
      period = after_change % workers == 0 ? workers * period - others : machine.use;
    }
    if (machine.mood > 0 && std::fmod(12.9898 * std::floor(seconds / machine.mood), 2) > 1) {
      period *= 1.8;
    }
    since_change += period;
    tuner.add({.period = period,
               .making = tuner.setting() == WorkerSetting{} ? machine.making * noise : 0,
               .making_cpu = machine.making * (1 - machine.waiting) * noise,
               .use_cpu = machine.busy * machine.use * noise});
    seconds += period;
  }
  return seconds;
}

double best_of(const Machine& machine) {
  double best = machine.period({});
  best = std::min(best, machine.period({.workers = 0, .pool = true}));
  for (int n = 1; n <= 4 * machine.cpus; ++n) best = std::min(best, machine.period({.workers = n}));
  return best;
}

TEST(WorkerTuner, FindsWhatIsFastestAndLosesLittleOnTheWay) {
  const Machine machines[] = {
      {.cpus = 2, .making = 10e-6, .use = 5e-6, .busy = 1, .waking = 15e-6},  // only sums
      {2, 160e-3, 1e-3, 1},                                                   // bound by decoding
      {2, 20e-3, 20e-3, 1},      // balanced, a single-threaded consumer
      {2, 3e-3, 1.0, 2},         // training on all CPUs
      {16, 160e-3, 10e-3, 0.2},  // a device that computes, many CPUs
      {16, 160e-3, 100e-3, 16},
      {1, 10e-3, 10e-3, 1},
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

TEST(WorkerTuner, FallsBackToTheCallerWhenTheOnlyCandidateDisappoints) {
  // Two background threads are all that comes near the best of what is predicted.
  const Machine machine{.cpus = 2, .making = 0.8e-3, .use = 0.4e-3, .busy = 1, .handover = 4e-3};
  WorkerTuner tuner({.cpus = 2, .compute_threads = 2});
  run(tuner, machine, 1000);
  EXPECT_EQ(tuner.setting(), WorkerSetting{}) << tuner.decision();
}

TEST(WorkerTuner, ChangesItsMindWhenTheLoopChanges) {
  const Machine light{2, 1e-3, 50e-3, 2}, heavy{2, 100e-3, 1e-3, 1};
  WorkerTuner tuner({.cpus = 2, .compute_threads = 2});
  run(tuner, light, 200);
  run(tuner, heavy, 500);
  EXPECT_LE(heavy.period(tuner.setting()), 1.03 * best_of(heavy)) << tuner.decision();
}

TEST(WorkerTuner, GivesReadsThatWaitMoreThreadsThanCpus) {
  const Machine network{
      .cpus = 2, .making = 40e-3, .use = 2e-3, .busy = 1, .spread = 0.05, .waiting = 0.95};
  WorkerTuner tuner({.cpus = 2, .compute_threads = 2});
  run(tuner, network, 200);
  EXPECT_EQ(tuner.setting(), WorkerSetting{.workers = 8}) << tuner.decision();
}

TEST(WorkerTuner, DoesNotChargeThreadsWithFillingTheirQueue) {
  const Machine machine{.cpus = 2, .making = 30e-3, .use = 20e-3, .busy = 0.4, .filling = true};
  WorkerTuner tuner({.cpus = 2, .compute_threads = 2});
  run(tuner, machine, 20);
  EXPECT_EQ(tuner.decision(),
            "batches made by 2 background threads: 20 ms from one to the next; 50 ms with "
            "num_workers = 0 (2.50x)");
}

TEST(WorkerTuner, CountsWholeBursts) {
  const Machine machine{.cpus = 2, .making = 60e-3, .use = 1e-3, .busy = 0, .bursts = true};
  WorkerTuner tuner({.cpus = 2, .compute_threads = 1});
  run(tuner, machine, 300);
  EXPECT_EQ(tuner.decision(),
            "batches made by 2 background threads: 30 ms from one to the next; 61 ms with "
            "num_workers = 0 (2.03x)");
}

TEST(WorkerTuner, SeesWhatThreadsDoOnceTheyHaveSettled) {
  const Machine machine{
      .cpus = 2, .making = 0.1e-3, .use = 0.3e-3, .busy = 1, .spread = 0.02, .settling = 8e-3};
  WorkerTuner tuner({.cpus = 2, .compute_threads = 2});
  run(tuner, machine, 2000);
  EXPECT_GT(tuner.setting().workers, 0) << tuner.decision();
}

TEST(WorkerTuner, IsNotMisledByAMachineWhoseSpeedChanges) {
  for (double mood = 0.005; mood < 0.2; mood *= 1.1) {
    // Two threads are ten percent faster than one, and a third faster than the caller.
    const Machine machine{
        .cpus = 2, .making = 0.22e-3, .use = 0.12e-3, .busy = 1.4, .spread = 0.02, .mood = mood};
    WorkerTuner tuner({.cpus = 2, .compute_threads = 1});
    run(tuner, machine, 6000);
    EXPECT_EQ(tuner.setting(), WorkerSetting{.workers = 2}) << mood << ": " << tuner.decision();
  }
}

TEST(WorkerTuner, DecidesWhenNoneIsTheFastestMoreOftenThanOthers) {
  for (double whims = 0.05; whims < 0.5; whims *= 1.1) {
    const Machine machine{.cpus = 8, .making = 0.2e-3, .use = 1e-3, .busy = 1, .whims = whims};
    WorkerTuner tuner({.cpus = 8, .compute_threads = 1});
    run(tuner, machine, 6000);
    EXPECT_FALSE(tuner.decision().empty()) << whims;
    EXPECT_LE(machine.period(tuner.setting()), 1.1 * best_of(machine)) << tuner.decision();
  }
}

TEST(WorkerTuner, SearchesAgainWhenWhatDisturbedItIsGone) {
  const Machine disturbed{.cpus = 2, .making = 40e-3, .use = 10e-3, .busy = 2, .handover = 60e-3};
  const Machine quiet{.cpus = 2, .making = 10e-3, .use = 10e-3, .busy = 2};
  WorkerTuner tuner({.cpus = 2, .compute_threads = 2});
  run(tuner, disturbed, 200);
  EXPECT_EQ(tuner.setting(), WorkerSetting{}) << tuner.decision();
  run(tuner, quiet, 500);
  EXPECT_LE(quiet.period(tuner.setting()), 1.03 * best_of(quiet)) << tuner.decision();
}

TEST(WorkerTuner, DoesWithoutThreadsWhereThereAreNone) {
  // Reads that wait: threads would be far ahead.
  const Machine machine{.cpus = 2, .making = 10e-3, .use = 1e-3, .busy = 1, .waiting = 0.9};
  WorkerTuner tuner({.cpus = 2, .compute_threads = 2});
  while (tuner.setting().workers == 0) run(tuner, machine, 1);
  tuner.do_without_threads();
  EXPECT_EQ(tuner.setting(), WorkerSetting{});
  EXPECT_TRUE(tuner.probing());
  for (int i = 0; i < 500; ++i) {
    run(tuner, machine, 1);
    ASSERT_EQ(tuner.setting().workers, 0);
  }
  EXPECT_TRUE(tuner.setting().pool) << tuner.decision();
}

TEST(WorkerTuner, TheCallerAloneWinsTies) {
  // What the compute threads save, they lose to each other.
  const Machine machine{.cpus = 2, .making = 10e-3, .use = 1e-3, .busy = 2, .handover = 5e-3};
  WorkerTuner tuner({.cpus = 2, .compute_threads = 2});
  run(tuner, machine, 500);
  EXPECT_EQ(tuner.setting(), WorkerSetting{}) << tuner.decision();
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
