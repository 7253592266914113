#include "data/worker_tuner.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

namespace facula::data {
namespace {

constexpr int kProbes = 3;           // batches made by the caller alone
constexpr int kRounds = 3;           // of the comparison
constexpr double kPlausible = 1.25;  // predictions up to this much above the best are measured
constexpr double kSegmentSeconds = 0.002;  // of one candidate in one round, at least
constexpr std::int64_t kMinSegment = 3, kMaxSegment = 256;  // batches
constexpr std::size_t kWindow = 32;
constexpr double kSlower = 1.3;  // than decided, in three windows on end

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string milliseconds(double seconds) { return fmt::format("{:.3g} ms", 1e3 * seconds); }

}  // namespace

std::string WorkerSetting::str() const {
  if (workers > 0) return fmt::format("{} background thread{}", workers, workers > 1 ? "s" : "");
  return pool ? "the compute threads, between steps" : "the caller, between steps";
}

double WorkerTuner::Candidate::median() const { return median_of(rounds); }

WorkerTuner::WorkerTuner(Limits limits) : limits_(limits) { begin_probe(); }

void WorkerTuner::begin_probe() {
  phase_ = Phase::probe;
  setting_ = {};
  probes_ = 0;
}

double WorkerTuner::predict(const WorkerSetting& setting) const {
  if (setting.pool) return making_ / limits_.compute_threads + use_;
  if (setting.workers == 0) return making_ + use_;
  // Background threads are never faster than the use, than their own work, nor than all the work
  // on all CPUs.
  const double work = making_ + use_cpu_;
  return std::max({use_, making_ / setting.workers, work / limits_.cpus});
}

bool WorkerTuner::add(const Timing& timing) {
  if (phase_ == Phase::keep) return watch(timing.period);
  if (phase_ == Phase::compare) {
    segment_seconds_ += timing.period;
    return ++in_segment_ >= segment_ && next_segment();
  }
  const double use = timing.period - timing.making;
  const bool first = probes_ == 0;
  making_ = first ? timing.making : std::min(making_, timing.making);
  use_cpu_ = first || use < use_ ? timing.cpu : use_cpu_;
  use_ = first ? use : std::min(use_, use);
  if (++probes_ < kProbes) return false;
  begin_compare();
  return setting_ != WorkerSetting{};
}

void WorkerTuner::begin_compare() {
  alone_period_ = making_ + use_;
  // In the order of preference: those before win ties.
  std::vector<WorkerSetting> settings;
  if (limits_.compute_threads > 1) settings.push_back({.workers = 0, .pool = true});
  settings.push_back({});
  for (int workers = 1; workers < limits_.cpus; workers *= 2) settings.push_back({workers});
  settings.push_back({limits_.cpus});

  candidates_.clear();
  double best = alone_period_;
  for (const WorkerSetting& setting : settings) {
    candidates_.push_back({setting, predict(setting)});
    best = std::min(best, candidates_.back().predicted);
  }
  std::erase_if(candidates_, [&](const Candidate& candidate) {
    return candidate.predicted > kPlausible * best;
  });
  const double batches = std::ceil(kSegmentSeconds / std::max(best, 1e-9));
  segment_ = static_cast<std::int64_t>(
      std::clamp(batches, static_cast<double>(kMinSegment), static_cast<double>(kMaxSegment)));
  phase_ = Phase::compare;
  in_segment_ = 0;
  segment_seconds_ = 0;
  run(0);
}

bool WorkerTuner::next_segment() {
  const WorkerSetting before = setting_;
  candidates_[current_].rounds.push_back(segment_seconds_ / static_cast<double>(in_segment_));
  in_segment_ = 0;
  segment_seconds_ = 0;
  const auto next = std::ranges::min_element(
      candidates_, {}, [](const Candidate& candidate) { return candidate.rounds.size(); });
  if (std::ssize(next->rounds) < kRounds) {
    run(static_cast<std::size_t>(next - candidates_.begin()));
  } else if (disappoints()) {
    candidates_.push_back({WorkerSetting{}, alone_period_});
    run(candidates_.size() - 1);
  } else {
    decide();
  }
  return setting_ != before;
}

void WorkerTuner::run(std::size_t candidate) {
  current_ = candidate;
  setting_ = candidates_[candidate].setting;
}

double WorkerTuner::least_median() const {
  double least = candidates_[0].median();
  for (const Candidate& candidate : candidates_) least = std::min(least, candidate.median());
  return least;
}

bool WorkerTuner::disappoints() const {
  const bool alone_measured = std::ranges::any_of(
      candidates_, [](const Candidate& candidate) { return candidate.setting == WorkerSetting{}; });
  return !alone_measured && least_median() > alone_period_;
}

void WorkerTuner::decide() {
  const Candidate* best = &candidates_[0];
  const double least = least_median();
  for (const Candidate& candidate : candidates_) {
    if (candidate.median() <= (1 + kTie) * least) {
      best = &candidate;
      break;
    }
  }
  for (const Candidate& candidate : candidates_) {
    if (candidate.setting == WorkerSetting{}) alone_period_ = candidate.median();
  }
  setting_ = best->setting;
  decided_period_ = best->median();
  phase_ = Phase::keep;
  watched_ = 0;
  window_.clear();
  slow_windows_ = 0;
}

bool WorkerTuner::watch(double period) {
  watched_ += period;
  window_.push_back(period);
  if (window_.size() < kWindow) return false;
  const double typical = median_of(window_);
  window_.clear();
  slow_windows_ = typical > kSlower * decided_period_ ? slow_windows_ + 1 : 0;
  if (slow_windows_ < 3 || watched_ < patience_) return false;
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
