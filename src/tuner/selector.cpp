#include "tuner/selector.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>

#include <facula/parallel.h>

#include "base/check.h"
#include "base/log.h"
#include "runtime/mode.h"

namespace facula::tuner {
namespace {

/// `switching` guards which selection is active; `deciding`, the later of the two where both are
/// taken, the decisions of all selectors.
std::mutex switching, deciding;
/// Whether a thread measures.
std::atomic_flag measuring;
/// The child of a fork() finds nobody at any of it.
[[maybe_unused]] const int at_fork = pthread_atfork(
    [] {
      switching.lock();
      deciding.lock();
    },
    [] {
      deciding.unlock();
      switching.unlock();
    },
    [] {
      measuring.clear();
      deciding.unlock();
      switching.unlock();
    });

using Seconds = std::chrono::duration<double>;

/// Samples of each candidate, fewer once they have taken the time.
constexpr int kMostSamples = 9, kFewestSamples = 3;
constexpr Seconds kEnough{0.2};
constexpr Seconds kNever{std::numeric_limits<double>::infinity()};
/// How much faster than the static choice another must be.
constexpr double kWorthwhile = 0.97;

std::string layout_of(const Tensor& tensor) {
  return fmt::format(" {}{}{}", name_of(tensor.dtype()), tensor.sizes().str(),
                     tensor.strides().str());
}

/// What the times depend on, besides the number of threads, and what there is to choose from: that
/// changes when implementations are switched off.
std::string problem_of(const KernelArgs& args, const std::vector<Implementation>& list,
                       const std::vector<std::size_t>& candidates) {
  std::string problem = args.call.op.name;
  for (std::uint32_t i = 0; i < args.call.count; ++i) {
    problem += args.has(i) ? layout_of(args.in(i)) : " -";
  }
  for (std::size_t i = 0; i < args.output_count; ++i) problem += layout_of(args.out(i));
  problem += fmt::format(" {{{}}}", attrs_str(args.call.op.attrs, args.call.attributes));
  for (const std::size_t i : candidates) problem += fmt::format(" '{}'", list[i].name);
  return problem;
}

std::string threads_suffix() { return fmt::format(" {} threads", get_num_threads()); }
/// Whether the key of a decision is that of the problem, with some number of threads: those of more
/// candidates go on with a name in quotes.
bool is_of(const std::string& key, const std::string& problem) {
  return key.size() > problem.size() + 1 && key.starts_with(problem + " ") &&
         key[problem.size() + 1] != '\'';
}

Seconds time_of(const Implementation& implementation, const KernelArgs& args) {
  const auto start = std::chrono::steady_clock::now();
  implementation.run(args);
  return std::chrono::steady_clock::now() - start;
}

/// The same; infinite where an implementation that need not run fails, as for want of memory.
Seconds time_if_it_runs(const Implementation& implementation, const KernelArgs& args) {
  try {
    return time_of(implementation, args);
  } catch (const OutOfMemory&) {
  } catch (const Error& error) {
    log_warning("benchmark: {} of {} failed and is not used: {}", implementation.name,
                args.call.op.name, error.what());
  }
  return kNever;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The median time of each candidate in ms, of samples that take turns.
std::vector<double> measure(const std::vector<Implementation>& list,
                            const std::vector<std::size_t>& candidates, const KernelArgs& args) {
  const auto run = [&](std::size_t k) {
    const Implementation& implementation = list[candidates[k]];
    return k == 0 ? time_of(implementation, args) : time_if_it_runs(implementation, args);
  };
  std::vector<bool> runs;  // found out by first calls, which may prepare something
  for (std::size_t k = 0; k < candidates.size(); ++k) runs.push_back(std::isfinite(run(k).count()));
  std::vector<std::vector<double>> samples(candidates.size());
  Seconds spent{0};
  for (int round = 0; round < kMostSamples && (round < kFewestSamples || spent < kEnough);
       ++round) {
    for (std::size_t k = 0; k < candidates.size(); ++k) {
      const Seconds time = runs[k] ? run(k) : kNever;
      samples[k].push_back(time.count() * 1e3);
      if (runs[k]) spent += time;
    }
  }
  std::vector<double> medians;
  medians.reserve(samples.size());
  for (const std::vector<double>& of_one : samples) medians.push_back(median(of_one));
  return medians;
}

void log_decision(const std::string& problem, const std::vector<Implementation>& list,
                  const std::vector<std::size_t>& candidates, const std::vector<double>& times,
                  std::size_t chosen) {
  std::string measured;
  for (std::size_t k = 0; k < candidates.size(); ++k) {
    measured += fmt::format("{}{} {:.4f} ms", k ? ", " : "", list[candidates[k]].name, times[k]);
  }
  log_info("benchmark: {}: {}; {} is used", problem, measured, list[chosen].name);
}

/// The first that takes the problem, as in the static order; one past the end if none does.
std::size_t static_choice(const std::vector<Implementation>& list, const KernelArgs& args) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].refuse || !list[i].refuse(args)) return i;
  }
  return list.size();
}

}  // namespace

std::vector<std::size_t> MeasuringSelector::candidates(const std::vector<Implementation>& list,
                                                       const KernelArgs& args) const {
  const std::size_t first = static_choice(list, args);
  if (first == list.size()) return {};
  std::vector<std::size_t> result = {first};
  for (std::size_t i = first + 1; i < list.size(); ++i) {
    const bool same_bits = list[i].bits != 0 && list[i].bits == list[first].bits;
    const bool allowed = same_bits || alternatives_ == backends::cpu::Alternatives::any_rounding;
    if (allowed && list[i].refuse && !list[i].refuse(args)) result.push_back(i);
  }
  return result;
}

std::size_t MeasuringSelector::select(const std::vector<Implementation>& list,
                                      const KernelArgs& args) {
  if (!list[0].refuse) return 0;
  const std::vector<std::size_t> choices = candidates(list, args);
  if (choices.empty()) return list.size();
  if (choices.size() == 1) return choices[0];
  const std::string key = problem_of(args, list, choices), threads = threads_suffix();
  const std::string problem = key + threads;
  {
    const std::lock_guard lock(deciding);
    const auto known = known_.find(problem);
    if (known != known_.end()) return known->second;
    if (const auto recalled = recall(key, threads, list, choices)) {
      known_.emplace(problem, *recalled);
      return *recalled;
    }
  }
  if (measuring.test_and_set()) return choices[0];
  const struct Unlock {
    std::atomic_flag& flag;
    ~Unlock() { flag.clear(); }
  } unlock{measuring};
  const std::vector<double> times = measure(list, choices, args);
  const auto fastest =
      static_cast<std::size_t>(std::min_element(times.begin(), times.end()) - times.begin());
  const std::size_t chosen = choices[times[fastest] < kWorthwhile * times[0] ? fastest : 0];
  if (runtime::tl_mode & runtime::kVerbose) log_decision(problem, list, choices, times, chosen);
  const std::lock_guard lock(deciding);
  known_.emplace(problem, chosen);
  choices_[problem] = list[chosen].name;
  return chosen;
}

std::optional<std::size_t> MeasuringSelector::recall(const std::string& problem,
                                                     const std::string& threads,
                                                     const std::vector<Implementation>& list,
                                                     const std::vector<std::size_t>& candidates) {
  auto loaded = choices_.find(problem + threads);
  if (loaded == choices_.end() && alternatives_ == backends::cpu::Alternatives::any_rounding) {
    // Equal bits matter more than the best choice for this number of threads.
    loaded = std::ranges::find_if(choices_,
                                  [&](const auto& choice) { return is_of(choice.first, problem); });
  }
  if (loaded == choices_.end()) return std::nullopt;
  for (const std::size_t i : candidates) {
    if (list[i].name == loaded->second) return i;
  }
  return std::nullopt;
}

std::map<std::string, std::string> MeasuringSelector::choices() {
  const std::lock_guard lock(deciding);
  return choices_;
}

void MeasuringSelector::load_choices(std::map<std::string, std::string> choices) {
  const std::lock_guard lock(deciding);
  known_.clear();
  choices_ = std::move(choices);
}

}  // namespace facula::tuner

namespace facula::backends::cpu {
namespace {

std::optional<Alternatives>& active() {
  static std::optional<Alternatives> alternatives;
  return alternatives;
}

/// Selectors live for ever: another thread may be using one that is being replaced.
tuner::MeasuringSelector* selector_for(Alternatives alternatives) {
  static auto* same = new tuner::MeasuringSelector(Alternatives::same_bits);
  static auto* any = new tuner::MeasuringSelector(Alternatives::any_rounding);
  return alternatives == Alternatives::same_bits ? same : any;
}

/// How an active selection is named in a tuning record.
const char* name_of(std::optional<Alternatives> alternatives) {
  if (!alternatives) return "none";
  return *alternatives == Alternatives::same_bits ? "same_bits" : "any_rounding";
}

}  // namespace

bool benchmark() {
  const std::lock_guard lock(tuner::switching);
  return active().has_value();
}

void benchmark(bool enabled, Alternatives alternatives) {
  const std::lock_guard lock(tuner::switching);
  active() = enabled ? std::optional(alternatives) : std::nullopt;
  runtime::set_selector(enabled ? selector_for(alternatives) : nullptr);
}

}  // namespace facula::backends::cpu

namespace facula::tuner {

StateDict tuning_record() {
  using backends::cpu::Alternatives;
  StateDict record;
  const std::lock_guard lock(switching);
  const std::optional<Alternatives> active = backends::cpu::active();
  record.set("alternatives", backends::cpu::name_of(active));
  StateDict choices;
  if (active) {
    std::int64_t number = 0;
    for (const auto& [problem, name] : backends::cpu::selector_for(*active)->choices()) {
      StateDict choice;  // problems contain dots and cannot be keys
      choice.set("problem", problem);
      choice.set("implementation", name);
      choices.set(std::to_string(number++), std::move(choice));
    }
  }
  record.set("choices", std::move(choices));
  return record;
}

void load_tuning_record(const StateDict& record) {
  using backends::cpu::Alternatives;
  const std::lock_guard lock(switching);
  const std::string& saved = record.text("alternatives");
  const std::string now = backends::cpu::name_of(backends::cpu::active());
  const std::string rounding = backends::cpu::name_of(Alternatives::any_rounding);
  if (saved != now && (saved == rounding || now == rounding)) {
    log_warning(
        "the run that goes on chose implementations among alternatives '{}', this one among '{}': "
        "results may differ in rounding from an uninterrupted run's; see backends::cpu::benchmark",
        saved, now);
  }
  std::map<std::string, std::string> choices;
  for (const auto& [number, choice] : record.dict("choices").entries()) {
    const auto* entry = choice.get_if<StateDict>();
    check<ValueError>(entry != nullptr, "tuning record: choice {} is {}, expected a tree", number,
                      choice.kind_name());
    choices[entry->text("problem")] = entry->text("implementation");
  }
  if (saved == "none") return;
  backends::cpu::selector_for(saved == rounding ? Alternatives::any_rounding
                                                : Alternatives::same_bits)
      ->load_choices(std::move(choices));
}

}  // namespace facula::tuner
