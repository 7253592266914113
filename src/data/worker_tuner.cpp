#include "data/worker_tuner.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

namespace facula::data {
namespace {

// Batches made by the caller alone, at least, and seconds: the first ones may find cold caches.
constexpr int kProbes = 3;
constexpr double kProbeSeconds = 0.0005;
// What a batch costs that another thread hands over: waking whoever waits, and reading what lies in
// that thread's cache. Nothing beside batches that take milliseconds, and as much as making one
// that takes ten microseconds.
constexpr double kHandover = 10e-6;
// Predictions up to this much above the best are measured; the second for the caller alone, whom
// the others have to beat.
constexpr double kPlausible = 1.25, kPlausibleAlone = 1.4;
// How long threads keep to a CPU, and what is in whose cache, takes tens of milliseconds to settle
// after a change: the first rounds, which are shorter, do not decide. Those that are close to each
// other are run in turn more often, which costs little, because they are close.
constexpr int kFirstRounds = 2, kLeastRounds = 5, kMostRounds = 11;
constexpr double kSearchSeconds = 0.5;   // after which kLeastRounds are enough
constexpr double kFirstSegment = 0.002;  // seconds; each round takes twice the one before, ...
constexpr int kDoublings = 4;            // so often
constexpr std::int64_t kMinSegment = 3;  // batches
constexpr std::size_t kWindow = 32;
constexpr double kChanged = 1.3;  // slower or faster than decided, in three windows on end

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// All but the first rounds, if there are more.
std::vector<double> deciding(const std::vector<double>& rounds) {
  return {rounds.begin() + std::min<std::ptrdiff_t>(kFirstRounds, std::ssize(rounds) - 1),
          rounds.end()};
}

std::string milliseconds(double seconds) { return fmt::format("{:.3g} ms", 1e3 * seconds); }

}  // namespace

std::string WorkerSetting::str() const {
  if (workers > 0) return fmt::format("{} background thread{}", workers, workers > 1 ? "s" : "");
  return pool ? "the compute threads, between steps" : "the caller, between steps";
}

double WorkerTuner::Candidate::typical() const { return median_of(deciding(rounds)); }

double WorkerTuner::Candidate::typical_relative() const { return median_of(deciding(relative)); }

WorkerTuner::WorkerTuner(Limits limits) : limits_(limits) { begin_probe(); }

void WorkerTuner::begin_probe() {
  phase_ = Phase::probe;
  setting_ = {};
  probes_ = 0;
  probe_seconds_ = 0;
}

void WorkerTuner::do_without_threads() {
  threads_ = false;
  begin_probe();
}

double WorkerTuner::predict(const WorkerSetting& setting) const {
  if (setting.pool) return making_ / limits_.compute_threads + use_;
  if (setting.workers == 0) return making_ + use_;
  // Background threads are never faster than the use, than their own work, nor than all the work
  // on all CPUs.
  const double work = making_cpu_ + use_cpu_;
  return kHandover + std::max({use_, making_ / setting.workers, work / limits_.cpus});
}

bool WorkerTuner::add(const Timing& timing) {
  if (phase_ == Phase::keep) return watch(timing.period);
  if (phase_ == Phase::compare) {
    if (++in_segment_ <= 0) return false;
    segment_seconds_ += timing.period;
    return segment_is_over() && next_segment();
  }
  const double use = timing.period - timing.making;
  const bool first = probes_ == 0;
  if (first || timing.making < making_) {
    making_ = timing.making;
    // One thread makes it; what is more is that of threads that look out for work.
    making_cpu_ = std::min(timing.making, timing.making_cpu);
  }
  use_cpu_ = first || use < use_ ? timing.use_cpu : use_cpu_;
  use_ = first ? use : std::min(use_, use);
  probe_seconds_ += timing.period;
  if (++probes_ < kProbes || probe_seconds_ < kProbeSeconds) return false;
  begin_compare();
  return setting_ != WorkerSetting{};
}

std::vector<WorkerSetting> WorkerTuner::without_threads() const {
  std::vector<WorkerSetting> settings = {{}};
  if (limits_.compute_threads > 1) settings.push_back({.workers = 0, .pool = true});
  return settings;
}

void WorkerTuner::begin_compare() {
  alone_period_ = making_ + use_;
  alone_measured_ = false;
  // In the order of preference: those before win ties.
  std::vector<WorkerSetting> settings = without_threads();
  if (threads_) {
    for (int workers = 1; workers < limits_.cpus; workers *= 2) settings.push_back({workers});
    settings.push_back({limits_.cpus});
    // Threads that mostly wait, as for a network, leave CPUs to others.
    if (making_cpu_ < making_ / 2) {
      for (const int times : {2, 4}) settings.push_back({times * limits_.cpus});
    }
  }

  double least = alone_period_;
  for (const WorkerSetting& setting : settings) least = std::min(least, predict(setting));
  std::erase_if(settings, [&](const WorkerSetting& setting) {
    const double plausible = setting == WorkerSetting{} ? kPlausibleAlone : kPlausible;
    return predict(setting) > plausible * least;
  });
  phase_ = Phase::compare;
  begin_rounds(settings);
}

void WorkerTuner::begin_rounds(const std::vector<WorkerSetting>& settings) {
  candidates_.clear();
  for (const WorkerSetting& setting : settings) candidates_.push_back({setting});
  search_seconds_ = 0;
  take_turn(0);
}

/// Threads that began together finish together, so that batches come in bursts of their number: a
/// segment is a whole number of those.
bool WorkerTuner::segment_is_over() const {
  const auto round = static_cast<int>(candidates_[current_].rounds.size());
  return in_segment_ >= kMinSegment && in_segment_ % std::max(setting_.workers, 1) == 0 &&
         segment_seconds_ >= std::ldexp(kFirstSegment, std::min(kDoublings, round));
}

bool WorkerTuner::next_segment() {
  const WorkerSetting before = setting_;
  candidates_[current_].rounds.push_back(segment_seconds_ / static_cast<double>(in_segment_));
  search_seconds_ += segment_seconds_;
  if (turn_ + 1 < candidates_.size()) {
    take_turn(turn_ + 1);
  } else {
    end_round();
  }
  return setting_ != before;
}

void WorkerTuner::end_round() {
  compare_round();
  const auto done = static_cast<int>(candidates_[0].rounds.size());
  const int enough = search_seconds_ < kSearchSeconds ? kMostRounds : kLeastRounds;
  const bool last = candidates_.size() == 1;  // which is not measured again
  if (!alone_measured_ && (done > 1 || last) && best().typical() > alone_period_) {
    std::vector<WorkerSetting> settings = without_threads();
    for (const Candidate& candidate : candidates_) {
      if (candidate.setting.workers > 0) settings.push_back(candidate.setting);
    }
    begin_rounds(settings);
  } else if (candidates_.size() > 1 && done < enough) {
    take_turn(0);
  } else {
    decide();
  }
}

/// Every other round goes backwards: what becomes faster or slower with time does so for all alike.
void WorkerTuner::take_turn(std::size_t turn) {
  turn_ = turn;
  const bool backwards = candidates_[0].relative.size() % 2 == 1;
  current_ = backwards ? candidates_.size() - 1 - turn : turn;
  setting_ = candidates_[current_].setting;
  // Threads that begin with an empty queue make more than is taken until they have filled it.
  in_segment_ = -2 * std::int64_t{setting_.workers};
  segment_seconds_ = 0;
}

void WorkerTuner::compare_round() {
  const auto latest = [](const Candidate& candidate) { return candidate.rounds.back(); };
  const double least = latest(*std::ranges::min_element(candidates_, {}, latest));
  for (Candidate& candidate : candidates_) {
    candidate.relative.push_back(latest(candidate) / least);
    if (candidate.setting != WorkerSetting{}) continue;
    alone_period_ = candidate.typical();
    alone_measured_ = true;
  }
  const auto done = static_cast<int>(candidates_[0].rounds.size());
  if (done < 2) return;
  const double fastest = best().typical_relative();
  std::erase_if(candidates_, [&](const Candidate& candidate) {
    // The first rounds are short, and may have been disturbed: who has come up to one and a half of
    // the fastest is measured again after the second, up to one and a quarter after the third, ...
    if (done < kLeastRounds) {
      return *std::ranges::min_element(candidate.relative) > 1 + std::ldexp(2.0, -done);
    }
    return candidate.typical_relative() > (1 + 2 * kTie) * fastest;
  });
}

const WorkerTuner::Candidate& WorkerTuner::best() const {
  const auto least = std::ranges::min_element(candidates_, {}, &Candidate::typical_relative);
  return *std::ranges::find_if(candidates_, [least](const Candidate& candidate) {
    return candidate.typical_relative() <= (1 + kTie) * least->typical_relative();
  });
}

void WorkerTuner::decide() {
  setting_ = best().setting;
  decided_period_ = best().typical();
  phase_ = Phase::keep;
  watched_ = 0;
  window_.clear();
  changed_windows_ = 0;
}

bool WorkerTuner::watch(double period) {
  watched_ += period;
  window_.push_back(period);
  if (window_.size() < kWindow) return false;
  const double typical = median_of(window_);
  window_.clear();
  const bool changed = typical > kChanged * decided_period_ || typical < decided_period_ / kChanged;
  changed_windows_ = changed ? changed_windows_ + 1 : 0;
  if (changed_windows_ < 3 || watched_ < patience_) return false;
  patience_ *= 2;
  const WorkerSetting before = setting_;
  begin_probe();
  return setting_ != before;
}

std::string WorkerTuner::decision() const {
  if (phase_ != Phase::keep) return {};
  std::string line = fmt::format("batches made by {}: {} from one to the next", setting_.str(),
                                 milliseconds(decided_period_));
  if (setting_ != WorkerSetting{}) {
    line += fmt::format("; {} with num_workers = 0 ({:.2f}x)", milliseconds(alone_period_),
                        alone_period_ / decided_period_);
  }
  return line;
}

}  // namespace facula::data
