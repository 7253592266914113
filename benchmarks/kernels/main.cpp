// The kernels behind an op, one by one: which of them take a problem, how exact and how fast they
// are.
//
//   bench_kernels [--check] [--rounds N] PROBLEM...
//   bench_kernels --random N [--seed S] [OP...]
//
// PROBLEM: see problem.h. Of every implementation that takes it, in the order in which the op tries
// them: the largest error against the double reference, relative to the largest expected value,
// and, without --check, the median time of runs that take turns, GFLOP/s (of the operations of the
// plain definition, whatever algorithm is used) with percent of the measured multiply-add peak, and
// GB/s (of operands and results, each moved once) with percent of the measured in-place bandwidth.
//
// --random compares every implementation of the ops (default: all) with the reference on N random
// problems that it takes, its bits with those it gives on another number of threads (some of the
// problems), and the bits of those that took the same problems. The exit status is 1 if an error is
// beyond Problem::most_error(), or bits differ that must be equal: between numbers of threads, and
// where Implementation::bits promises it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include <facula/autograd.h>
#include <facula/generator.h>
#include <facula/ops.h>
#include <facula/parallel.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/check.h"
#include "benchmarks/kernels/problem.h"
#include "cli/machine_limits.h"
#include "core/tensor_impl.h"
#include "runtime/mode.h"

namespace facula::kernels {
namespace {

using Results = std::vector<Tensor>;

/// The largest difference over the largest magnitude expected. Integers must be equal.
double error_of(const Tensor& actual, const Tensor& expected) {
  const Tensor a = actual.to(kFloat64), b = expected.to(kFloat64);
  if (b.numel() == 0) return 0;
  const Tensor zero = zeros({}, kFloat64), unknown = isnan(b);  // means of nothing
  const double error = amax(where(unknown & isnan(a), zero, abs(a - b))).item<double>();
  const double scale =
      expected.is_floating_point() ? amax(where(unknown, zero, abs(b))).item<double>() : 1;
  return error == 0 ? 0 : error / scale;
}

/// The worst of all results; NaN if there is one.
double error_of(const Results& actual, const Results& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = error_of(actual[i], expected[i]);
    if (!(error <= worst)) worst = error;
    if (std::isnan(worst)) break;
  }
  return worst;
}

/// The oracle, unless it is composed of other ops, which counts as an implementation too.
bool is_reference(const Implementation& implementation) {
  return std::strcmp(implementation.name, "reference") == 0;
}

Results results_of(const Call& call, const Implementation& implementation) {
  Results results = call.results();
  call.run(implementation, results);
  return results;
}

/// By the last implementation, whose ops, if it is made of such, run their references.
Results reference_results(const Call& call) {
  const runtime::ModeGuard reference(runtime::kReference);
  return results_of(call, implementations(call.id(), DeviceType::cpu).back());
}

struct Row {
  const Implementation* implementation;
  Results results;
  double error = 0;
  std::vector<double> seconds = {};
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

/// Runs the implementations in turn.
void measure(const Call& call, std::vector<Row>& rows, int rounds) {
  using Clock = std::chrono::steady_clock;
  for (int round = -1; round < rounds; ++round) {  // the first does not count
    for (Row& row : rows) {
      const auto start = Clock::now();
      call.run(*row.implementation, row.results);
      const std::chrono::duration<double> elapsed = Clock::now() - start;
      if (round >= 0) row.seconds.push_back(elapsed.count());
    }
  }
}

/// What as many threads reach at most as the library uses.
struct Peaks {
  double gflops = 0, gb_s = 0;

  static Peaks measured() {
    std::vector<int> cpus = machine::usable_cpus();
    cpus.resize(std::min(cpus.size(), static_cast<std::size_t>(get_num_threads())));
    machine::Array array;
    return {machine::fma_gflops(cpus).median, machine::inplace_gb_s(cpus, array).median};
  }
};

std::string speed(const Problem& problem, const Call& call, double seconds, const Peaks& peaks) {
  std::string text = fmt::format("{:9.3f} ms", seconds * 1e3);
  if (problem.kind().flops) {
    const double gflops = problem.kind().flops(problem) / seconds * 1e-9;
    text += fmt::format("  {:6.1f} GFLOP/s {:4.0f} %", gflops, 100 * gflops / peaks.gflops);
  }
  const double gb_s = static_cast<double>(call.bytes()) / seconds * 1e-9;
  return text + fmt::format("  {:6.1f} GB/s {:4.0f} %", gb_s, 100 * gb_s / peaks.gb_s);
}

/// Prints all about one problem; false if a kernel is wrong.
bool show(const Problem& problem, bool only_check, int rounds, const Peaks& peaks) {
  std::printf("%s\n", problem.str().c_str());
  Call call(problem);
  call.fill();
  const Results expected = reference_results(call);
  std::vector<Row> rows;
  for (const Implementation& implementation : implementations(call.id(), DeviceType::cpu)) {
    if (is_reference(implementation)) continue;
    if (const Refusal refusal = call.refuse(implementation)) {
      std::printf("  %-28s refuses: %s\n", implementation.name, refusal);
      continue;
    }
    Results results = results_of(call, implementation);
    const double error = error_of(results, expected);
    rows.push_back({&implementation, std::move(results), error});
  }
  if (!only_check) measure(call, rows, rounds);
  bool right = true;
  for (const Row& row : rows) {
    const bool is_right = row.error <= problem.most_error();
    std::printf("  %-28s error %.1e%s", row.implementation->name, row.error,
                is_right ? "" : "  WRONG");
    right = right && is_right;
    if (!row.seconds.empty()) {
      std::printf("  %s", speed(problem, call, median(row.seconds), peaks).c_str());
    }
    std::printf("\n");
  }
  return right;
}

/// What random problems have shown of one implementation.
struct Record {
  int problems = 0, wrong = 0;
  double worst = 0;
  std::string where = {};

  void add(const Problem& problem, double error, const char* implementation) {
    ++problems;
    const bool is_wrong = !(error <= problem.most_error());
    if (is_wrong) {
      ++wrong;
      std::printf("WRONG %s: %s: error %.1e\n", implementation, problem.str().c_str(), error);
    }
    if (is_wrong || error >= worst) {
      worst = error;
      where = problem.str();
    }
  }
  void differs(const Problem& problem, const char* implementation) {
    ++wrong;
    std::printf("WRONG %s: %s: other bits on other numbers of threads\n", implementation,
                problem.str().c_str());
  }
};

/// How often two implementations have given the same bits.
struct Agreement {
  int problems = 0, same = 0;
};

bool same_bits(const Results& a, const Results& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Tensor x = a[i].contiguous(), y = b[i].contiguous();
    if (std::memcmp(x.impl()->data, y.impl()->data, x.nbytes()) != 0) return false;
  }
  return true;
}

/// Whether the implementation gives these results on another number of threads too.
bool same_on_other_threads(const Call& call, const Implementation& implementation,
                           const Results& results) {
  const int threads = get_num_threads();
  set_num_threads(threads == 1 ? 3 : 1);
  const Results others = results_of(call, implementation);
  set_num_threads(threads);
  return same_bits(results, others);
}

/// Compares the results of one problem with each other; empty ones were not computed.
void compare_bits(const std::vector<Results>& results,
                  std::vector<std::vector<Agreement>>& agreements) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (std::size_t j = i + 1; j < results.size(); ++j) {
      if (results[i].empty() || results[j].empty()) continue;
      ++agreements[i][j].problems;
      agreements[i][j].same += same_bits(results[i], results[j]);
    }
  }
}

/// Prints which implementations always agreed; false if some did not that should.
bool show_agreements(const std::vector<Implementation>& list,
                     const std::vector<std::vector<Agreement>>& agreements) {
  bool right = true;
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (std::size_t j = i + 1; j < list.size(); ++j) {
      const auto [problems, same] = agreements[i][j];
      const bool promised = list[i].bits != 0 && list[i].bits == list[j].bits;
      if (promised && same < problems) {
        std::printf("WRONG: '%s' and '%s' gave the same bits for %d of %d problems only\n",
                    list[i].name, list[j].name, same, problems);
        right = false;
      } else if (problems > 0 && same == problems) {
        std::printf("  '%s' and '%s' gave the same bits for all of %d problems\n", list[i].name,
                    list[j].name, problems);
      }
    }
  }
  return right;
}

/// What random problems have shown of the implementations of an op.
struct Findings {
  explicit Findings(const Kind& kind)
      : list(implementations(find_op(kind.op)->id, DeviceType::cpu)),
        records(list.size()),
        agreements(list.size(), std::vector<Agreement>(list.size())) {}

  /// Runs those that have taken fewer than `count` problems; false if there are none.
  bool add(const Problem& problem, int count, bool other_threads) {
    Call call(Problem(problem.str()));  // what is printed is what has run
    Results expected;
    std::vector<Results> results(list.size());
    bool lacking = false;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (is_reference(list[i]) || records[i].problems >= count) continue;
      lacking = true;
      if (call.refuse(list[i])) continue;
      if (expected.empty()) {
        call.fill();
        expected = reference_results(call);
      }
      results[i] = results_of(call, list[i]);
      records[i].add(problem, error_of(results[i], expected), list[i].name);
      if (other_threads && !same_on_other_threads(call, list[i], results[i])) {
        records[i].differs(problem, list[i].name);
      }
    }
    compare_bits(results, agreements);
    return lacking;
  }

  /// False if anything was wrong, or an implementation took fewer than `count` problems.
  bool show(int count) const {
    bool right = true;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (is_reference(list[i])) continue;
      const Record& record = records[i];
      std::printf("  %-32s %6d problems, %d wrong, worst error %.1e at %s\n", list[i].name,
                  record.problems, record.wrong, record.worst, record.where.c_str());
      if (record.problems < count) std::printf("  TOO FEW of %d problems\n", count);
      right = right && record.wrong == 0 && record.problems >= count;
    }
    return show_agreements(list, agreements) && right;
  }

  const std::vector<Implementation>& list;
  std::vector<Record> records;
  std::vector<std::vector<Agreement>> agreements;
};

/// Compares every implementation with the reference until each has taken `count` problems, or
/// kMostDraws times as many have been drawn.
bool check_random(const Kind& kind, int count, unsigned seed) {
  constexpr int kMostDraws = 1000;
  constexpr int kThreadsEvery = 8;  // starting threads takes longer than most problems
  Random random(seed);
  Findings findings(kind);
  for (int draw = 0; draw / kMostDraws < count; ++draw) {
    if (!findings.add(Problem::random(kind, random), count, draw % kThreadsEvery == 0)) break;
  }
  std::printf("%s\n", kind.op);
  const bool right = findings.show(count);
  std::fflush(stdout);  // all ops together may take hours
  return right;
}

/// The kinds of the ops named, or all.
std::vector<const Kind*> chosen_kinds(const std::vector<std::string>& ops) {
  std::vector<const Kind*> chosen;
  if (ops.empty()) {
    for (const Kind& kind : kinds()) chosen.push_back(&kind);
  }
  for (const std::string& op : ops) {
    chosen.push_back(find_kind(op));
    check<ValueError>(chosen.back() != nullptr, "--random: no problems are about op '{}'", op);
  }
  return chosen;
}

int run(int argc, char** argv) {
  bool only_check = false, right = true;
  int rounds = 15, random = 0;
  unsigned seed = 1;
  std::vector<std::string> rest;
  CLI::App app("The implementations of an op, one by one: what they take, their errors and times");
  app.add_flag("--check", only_check, "Errors only");
  app.add_option("--rounds", rounds, "Timed runs of each")->check(CLI::Range(1, 1 << 20));
  app.add_option("--random", random, "Compare on so many random problems, of the ops given or all")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--seed", seed, "Of the random problems and values");
  app.add_option("PROBLEM", rest, "Such as conv2d:n128c64h32oc64k3p1; with --random, ops");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  if (rest.empty() && random == 0) {
    std::fputs(app.help().c_str(), stderr);
    return 2;
  }
  const NoGradGuard no_grad;
  manual_seed(seed);
  if (random > 0) {
    for (const Kind* kind : chosen_kinds(rest)) right = check_random(*kind, random, seed) && right;
    return right ? 0 : 1;
  }
  std::vector<Problem> problems;
  for (const std::string& text : rest) problems.emplace_back(text);
  const Peaks peaks = only_check ? Peaks() : Peaks::measured();
  if (!only_check) {
    std::printf("peaks of %d threads: %.0f GFLOP/s, %.1f GB/s in place\n", get_num_threads(),
                peaks.gflops, peaks.gb_s);
  }
  for (const Problem& problem : problems) right = show(problem, only_check, rounds, peaks) && right;
  return right ? 0 : 1;
}

}  // namespace
}  // namespace facula::kernels

int main(int argc, char** argv) {
  try {
    return facula::kernels::run(argc, argv);
  } catch (const facula::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
