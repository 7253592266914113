// How many threads make batches, decided by measuring the loop that uses them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace facula::data {

/// Who makes batches: `workers` background threads; with none, the caller, alone or (`pool`) with
/// all compute threads.
struct WorkerSetting {
  int workers = 0;
  bool pool = false;

  bool operator==(const WorkerSetting&) const = default;
  /// "2 background threads".
  std::string str() const;
};

/// Finds the setting with which a batch takes least time from one to the next, use included.
///
/// It begins with the caller alone and measures what making and using a batch cost and how busy the
/// CPUs are during the use. That predicts every setting well enough to leave out those that are
/// far from the best; the others are run in turn, in rounds that grow longer and leave out what is
/// far behind. Each round compares them with the fastest of that round, since the speed of the
/// machine changes meanwhile, and the one that is fastest in the median is kept. If none keeps up
/// with what the caller alone promised, the caller joins them, alone and with the compute threads.
/// A setting that needs fewer threads wins unless another is faster by more than kTie. When the
/// loop becomes slower or faster for good, the search begins anew.
class WorkerTuner {
 public:
  struct Limits {
    int cpus = 1;             // that the process may use
    int compute_threads = 1;  // of the pool
  };
  explicit WorkerTuner(Limits limits);

  /// What one batch of a setting took. Batches that were made under another setting, and the first
  /// one after a change, are not to be reported.
  struct Timing {
    double period = 0;  // seconds from one batch to the next
    double making = 0;  // seconds of that (of one thread) for making a batch, or of waiting for it
    // CPU seconds of all threads of the process meanwhile, and during the rest.
    double making_cpu = 0, use_cpu = 0;
  };
  /// Returns true if the setting has changed.
  bool add(const Timing& timing);

  /// The system gives no background threads: begins anew, with settings that need none.
  void do_without_threads();

  const WorkerSetting& setting() const { return setting_; }
  /// While true, the CPU seconds of a Timing are needed.
  bool probing() const { return phase_ == Phase::probe; }
  /// What was decided, and the time of the caller alone beside it; empty before.
  std::string decision() const;

 private:
  enum class Phase : std::uint8_t { probe, compare, keep };
  static constexpr double kTie = 0.02;

  struct Candidate {
    WorkerSetting setting;
    std::vector<double> rounds = {};    // mean period of each
    std::vector<double> relative = {};  // to the fastest of the round

    /// The medians of the rounds that decide.
    double typical() const;
    double typical_relative() const;
  };

  void begin_probe();
  /// The settings in which the caller makes batches.
  std::vector<WorkerSetting> without_threads() const;
  void begin_compare();
  double predict(const WorkerSetting& setting) const;
  void begin_rounds(const std::vector<WorkerSetting>& settings);
  void take_turn(std::size_t turn);
  bool segment_is_over() const;
  bool next_segment();
  void end_round();
  /// Notes what the candidates took, and leaves out who is far behind.
  void compare_round();
  const Candidate& best() const;
  void decide();
  bool watch(double period);

  const Limits limits_;
  bool threads_ = true;  // in the background
  Phase phase_ = Phase::probe;
  WorkerSetting setting_;
  // The least of each that probing saw.
  int probes_ = 0;
  double probe_seconds_ = 0;
  double making_ = 0, making_cpu_ = 0, use_ = 0, use_cpu_ = 0;

  std::vector<Candidate> candidates_;
  std::size_t turn_ = 0, current_ = 0;  // of the round, and the candidate whose turn it is
  std::int64_t in_segment_ = 0;         // batches; below 0 they do not count yet
  double segment_seconds_ = 0, search_seconds_ = 0;

  double decided_period_ = 0;
  double alone_period_ = 0;  // of the caller alone: as probing promised or, then, as measured
  bool alone_measured_ = false;
  double watched_ = 0;          // seconds since the decision
  double patience_ = 2;         // seconds between searches, growing
  std::vector<double> window_;  // the latest periods
  int changed_windows_ = 0;
};

}  // namespace facula::data
