// Elementwise ops and reductions on 64 MiB against hand-written loops that move the same bytes.
//
//   bench_bandwidth [--json | --rounds] [--cached] [OP]     OP: only ops whose names contain it
//
// --rounds: every round as a line of JSON, for machines whose memory has several speeds.
// --cached: what the arithmetic takes instead, ns per element on 16 KiB in one thread.
//
// Every run of an op follows one of the loop of its kind, and the median of the ratios counts: the
// bandwidth of a shared machine changes from second to second. Kinds: reading; changing in place;
// reading one or two arrays and writing a third. Loops come with and without asking ahead for what
// they read, those that write a new array with ordinary and with non-temporal stores: the fastest
// counts. Bytes are those the op reads and writes once.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <facula/autograd.h>
#include <facula/ops.h>
#include <facula/parallel.h>

#include "benchmarks/stream_line.h"
#include "cli/machine_limits.h"

namespace {

using namespace facula;
using machine::Line;

constexpr std::int64_t kSide = 4096, kCachedSide = 64;  // of square tensors of 4-byte elements
constexpr double kBytes = 4.0 * kSide * kSide;
constexpr int kRounds = 25;

// --- The loops to compare with -------------------------------------------------------------------

FACULA_EVERY_TARGET void map_lines(Line* y, const Line* x, size_t count) {
  for (size_t i = 0; i < count; ++i) y[i] = x[i] * 0.5f + 1.0f;
}

FACULA_EVERY_TARGET void zip_lines(Line* z, const Line* x, const Line* y, size_t count) {
  for (size_t i = 0; i < count; ++i) z[i] = x[i] + y[i];
}

void map_lines_streaming(Line* y, const Line* x, size_t count) {
  for (size_t i = 0; i < count; ++i) machine::stream(y + i, x[i] * 0.5f + 1.0f);
  machine::finish_streaming();
}

void zip_lines_streaming(Line* z, const Line* x, const Line* y, size_t count) {
  for (size_t i = 0; i < count; ++i) machine::stream(z + i, x[i] + y[i]);
  machine::finish_streaming();
}

// Not every processor foresees enough.
inline void ask_ahead(const Line* x) {
  __builtin_prefetch(x + 8192 / sizeof(Line), 0, 2);
  __builtin_prefetch(x + 2048 / sizeof(Line));
}

FACULA_EVERY_TARGET void read_lines_asking(const Line* x, size_t count) {
  Line sums[4] = {};
  for (size_t i = 0; i < count; i += 4) {
    for (size_t k = 0; k < 4; ++k) {
      __builtin_prefetch(x + i + k + 4096 / sizeof(Line), 0, 2);
      sums[k] += x[i + k];
    }
  }
  machine::keep(sums[0] + sums[1] + sums[2] + sums[3]);
}

FACULA_EVERY_TARGET void update_lines_asking(Line* x, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    ask_ahead(x + i);
    x[i] = x[i] * 0.5f + 1.0f;
  }
}

void map_lines_asking(Line* y, const Line* x, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    ask_ahead(x + i);
    machine::stream(y + i, x[i] * 0.5f + 1.0f);
  }
  machine::finish_streaming();
}

void zip_lines_asking(Line* z, const Line* x, const Line* y, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    ask_ahead(x + i);
    ask_ahead(y + i);
    machine::stream(z + i, x[i] + y[i]);
  }
  machine::finish_streaming();
}

enum class Pattern { read, update, map, zip };
constexpr const char* kPatternNames[] = {"read", "in place", "map", "zip"};

class Loops {
 public:
  Loops() : cpus_(machine::usable_cpus()) {
    for (auto& array : arrays_) {
      array = std::make_unique<machine::Array>();
      // Pages nobody has written to are all the same page of zeros.
      std::memset(static_cast<void*>(array->part(0, 1)), 0, machine::kArrayBytes);
    }
  }

  struct Best {
    double gb_s = 0;
    int of = 0;  // so many loops
  };

  /// The fastest loop of this kind. Each runs once before it is timed.
  Best best(Pattern pattern) const {
    const auto best = [&](double bytes, auto... loops) {
      return Best{std::max({measure(loops, bytes)...}), sizeof...(loops)};
    };
    switch (pattern) {
      case Pattern::read:
        return best(
            kBytes, [](Line* x, Line*, Line*, size_t n) { machine::read_lines(x, n); },
            [](Line* x, Line*, Line*, size_t n) { read_lines_asking(x, n); });
      case Pattern::update:
        return best(
            2 * kBytes, [](Line* x, Line*, Line*, size_t n) { machine::update_lines(x, n); },
            [](Line* x, Line*, Line*, size_t n) { update_lines_asking(x, n); });
      case Pattern::map:
        return best(
            2 * kBytes, [](Line* x, Line* y, Line*, size_t n) { map_lines(y, x, n); },
            [](Line* x, Line* y, Line*, size_t n) { map_lines_streaming(y, x, n); },
            [](Line* x, Line* y, Line*, size_t n) { map_lines_asking(y, x, n); });
      case Pattern::zip:
        return best(
            3 * kBytes, [](Line* x, Line* y, Line* z, size_t n) { zip_lines(z, x, y, n); },
            [](Line* x, Line* y, Line* z, size_t n) { zip_lines_streaming(z, x, y, n); },
            [](Line* x, Line* y, Line* z, size_t n) { zip_lines_asking(z, x, y, n); });
    }
    return {};
  }

 private:
  template <class Loop>
  double measure(Loop loop, double bytes) const {
    const auto threads = cpus_.size();
    const size_t lines = static_cast<size_t>(kBytes) / sizeof(Line) / threads / 4 * 4;
    const auto run = [&](int thread) {
      const size_t first = lines * static_cast<size_t>(thread);
      loop(line(0, first), line(1, first), line(2, first), lines);
      return bytes * 1e-9 / static_cast<double>(threads);
    };
    return machine::rate_of(cpus_, run, 1).median;
  }
  Line* line(int array, size_t i) const { return arrays_[array]->part(0, 1) + i; }

  std::vector<int> cpus_;
  std::unique_ptr<machine::Array> arrays_[3];
};

// --- The ops -------------------------------------------------------------------------------------

struct Case {
  std::string name;
  Pattern pattern;
  double bytes;
  std::int64_t elements;  // of the first operand
  std::function<void()> run;
};

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);
using Ternary = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);

constexpr std::pair<const char*, Unary> kMaps[] = {
    {"neg", neg},
    {"abs", abs},
    {"relu", relu},
    {"sqrt", sqrt},
    {"rsqrt", rsqrt},
    {"reciprocal", reciprocal},
    {"square", square},
    {"sign", sign},
    {"floor", floor},
    {"ceil", ceil},
    {"round", round},
    {"trunc", trunc},
    {"exp", exp},
    {"exp2", exp2},
    {"expm1", expm1},
    {"log", log},
    {"log1p", log1p},
    {"log2", log2},
    {"log10", log10},
    {"sigmoid", sigmoid},
    {"tanh", tanh},
    {"erf", erf},
    {"erfc", erfc},
    {"sin", sin},
    {"cos", cos},
    {"tan", tan},
    {"atan", atan},
    {"sinh", sinh},
    {"cosh", cosh},
    {"silu", silu},
    {"x * 2", [](const Tensor& x) { return x * 2; }},
    {"clamp", [](const Tensor& x) { return clamp(x, 0.6, 1.2); }},
    {"gelu", [](const Tensor& x) { return gelu(x); }},
    {"gelu, tanh", [](const Tensor& x) { return gelu(x, "tanh"); }},
    {"softplus", [](const Tensor& x) { return softplus(x); }},
    {"elu", [](const Tensor& x) { return elu(x); }},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x); }},
    {"hardtanh", [](const Tensor& x) { return hardtanh(x); }},
    {"hardswish", hardswish},
    {"hardsigmoid", hardsigmoid},
    {"cumsum, dim 0", [](const Tensor& x) { return cumsum(x, 0); }},
    {"cumsum, dim 1", [](const Tensor& x) { return cumsum(x, 1); }},
};

constexpr std::pair<const char*, Binary> kZips[] = {
    {"a + b", [](const Tensor& x, const Tensor& y) { return x + y; }},
    {"a * b", [](const Tensor& x, const Tensor& y) { return x * y; }},
    {"a / b", [](const Tensor& x, const Tensor& y) { return x / y; }},
    {"maximum", maximum},
    {"pow", pow},
    {"atan2", atan2},
    {"fmod", fmod},
    {"remainder", remainder},
    {"floor_divide", floor_divide},
    {"absolute_error", absolute_error},
    {"squared_error", squared_error},
    {"huber_error", [](const Tensor& x, const Tensor& y) { return huber_error(x, y); }},
    {"logit_cross_entropy", logit_cross_entropy},
    {"relu_backward", relu_backward},
    {"sigmoid_backward", sigmoid_backward},
    {"tanh_backward", tanh_backward},
    {"silu_backward", silu_backward},
    {"gelu_erf_backward", gelu_erf_backward},
    {"gelu_tanh_backward", gelu_tanh_backward},
    {"softplus_backward",
     [](const Tensor& grad, const Tensor& x) { return softplus_backward(grad, x, 1, 20); }},
    {"elu_backward",
     [](const Tensor& grad, const Tensor& x) { return elu_backward(grad, x, 1, 1, 1); }},
    {"leaky_relu_backward",
     [](const Tensor& grad, const Tensor& x) { return leaky_relu_backward(grad, x, 0.01); }},
    {"hardtanh_backward",
     [](const Tensor& grad, const Tensor& x) { return hardtanh_backward(grad, x, -1, 1); }},
    {"hardswish_backward", hardswish_backward},
    {"hardsigmoid_backward", hardsigmoid_backward},
    {"clamp_backward",
     [](const Tensor& grad, const Tensor& x) { return clamp_backward(grad, x, 0.6, 1.2); }},
};

constexpr std::pair<const char*, Ternary> kOfThree[] = {
    {"lerp", lerp},
    {"addcmul", [](const Tensor& x, const Tensor& y, const Tensor& z) { return addcmul(x, y, z); }},
    {"addcdiv", [](const Tensor& x, const Tensor& y, const Tensor& z) { return addcdiv(x, y, z); }},
    {"absolute_error_backward", absolute_error_backward},
    {"squared_error_backward", squared_error_backward},
    {"huber_error_backward", [](const Tensor& x, const Tensor& y,
                                const Tensor& z) { return huber_error_backward(x, y, z); }},
    {"logit_cross_entropy_backward", logit_cross_entropy_backward},
};

constexpr std::pair<const char*, Unary> kTests[] = {
    {"isnan", isnan}, {"isinf", isinf}, {"isfinite", isfinite}, {"logical_not", logical_not}};

constexpr std::pair<const char*, Binary> kComparisons[] = {
    {"a < b", lt},
    {"a == b", eq},
    {"logical_and", logical_and},
    {"logical_or", logical_or},
    {"logical_xor", logical_xor},
};

constexpr std::pair<const char*, void (*)(const Tensor&)> kUpdates[] = {
    {"mul_", [](const Tensor& x) { x.mul_(1.0001); }},
    {"relu_", [](const Tensor& x) { x.relu_(); }},
    {"sigmoid_", [](const Tensor& x) { x.sigmoid_(); }},
};

constexpr std::pair<const char*, Unary> kReductions[] = {
    {"sum", [](const Tensor& x) { return sum(x); }},
    {"sum, dim 0", [](const Tensor& x) { return sum(x, {0}); }},
    {"sum, dim 1", [](const Tensor& x) { return sum(x, {1}); }},
    {"mean", [](const Tensor& x) { return mean(x); }},
    {"prod", [](const Tensor& x) { return prod(x); }},
    {"prod, dim 0", [](const Tensor& x) { return prod(x, {0}); }},
    {"prod, dim 1", [](const Tensor& x) { return prod(x, {1}); }},
    {"amax", [](const Tensor& x) { return amax(x); }},
    {"amin", [](const Tensor& x) { return amin(x); }},
    {"amax, dim 1", [](const Tensor& x) { return amax(x, {1}); }},
    {"amin, dim 0", [](const Tensor& x) { return amin(x, {0}); }},
    {"var", [](const Tensor& x) { return var(x); }},
    {"var, dim 1", [](const Tensor& x) { return var(x, {1}); }},
    {"var, dim 0", [](const Tensor& x) { return var(x, {0}); }},
    {"std", [](const Tensor& x) { return facula::std(x); }},
    {"argmax", [](const Tensor& x) { return argmax(x); }},
    {"argmax, dim 0", [](const Tensor& x) { return argmax(x, 0); }},
    {"argmax, dim 1", [](const Tensor& x) { return argmax(x, 1); }},
    {"argmin", [](const Tensor& x) { return argmin(x); }},
    {"argmin, dim 0", [](const Tensor& x) { return argmin(x, 0); }},
    {"argmin, dim 1", [](const Tensor& x) { return argmin(x, 1); }},
    {"all", [](const Tensor& x) { return all(x); }},
    {"all, dim 0", [](const Tensor& x) { return all(x, {0}); }},
    {"all, dim 1", [](const Tensor& x) { return all(x, {1}); }},
    {"logsumexp, dim 0", [](const Tensor& x) { return logsumexp(x, {0}); }},
    {"logsumexp, dim 1", [](const Tensor& x) { return logsumexp(x, {1}); }},
    {"l2_norm", [](const Tensor& x) { return l2_norm(x); }},
    {"l2_norm, dim 0", [](const Tensor& x) { return l2_norm(x, {0}); }},
    {"l2_norm, dim 1", [](const Tensor& x) { return l2_norm(x, {1}); }},
    {"norm, p = 1", [](const Tensor& x) { return norm(x, 1); }},
};

/// On tensors of `side` x `side` elements.
std::vector<Case> cases(std::int64_t side) {
  // Values for which every function is defined and none saturates. No product of all is a normal
  // float, which takes no longer.
  const Tensor a = rand({side, side}) + 0.5, b = rand({side, side}) + 0.5;
  const Tensor c = rand({side, side}) + 0.5;
  const auto one = static_cast<double>(a.nbytes());
  std::vector<Case> list;
  const auto add = [&](const char* name, Pattern pattern, double bytes, auto op,
                       const Tensor& first, auto... others) {
    list.push_back({name, pattern, bytes, first.numel(), [=] { op(first, others...); }});
  };
  for (const auto& [name, op] : kMaps) add(name, Pattern::map, 2 * one, op, a);
  for (const std::int64_t classes : {1000, 4096}) {
    const Tensor rows = rand({a.numel() / classes, classes});
    const auto bytes = static_cast<double>(rows.nbytes());
    const std::string of = fmt::format(", rows of {}", classes);
    add(("softmax" + of).c_str(), Pattern::map, 2 * bytes, softmax, rows, 1);
    add(("log_softmax" + of).c_str(), Pattern::map, 2 * bytes, log_softmax, rows, 1);
    add(("softmax gradient" + of).c_str(), Pattern::zip, 3 * bytes, softmax_backward, rows,
        softmax(rows, 1), 1);
    add(("log_softmax gradient" + of).c_str(), Pattern::zip, 3 * bytes, log_softmax_backward, rows,
        log_softmax(rows, 1), 1);
  }
  for (const auto& [name, op] : kZips) add(name, Pattern::zip, 3 * one, op, a, b);
  // There is no loop that reads three arrays; results of one byte an element count as reading.
  for (const auto& [name, op] : kOfThree) add(name, Pattern::zip, 4 * one, op, a, b, c);
  add("where(mask, a, b)", Pattern::zip, 3.25 * one, Ternary{where}, a < b, a, b);
  for (const auto& [name, op] : kTests) add(name, Pattern::read, 1.25 * one, op, a);
  for (const auto& [name, op] : kComparisons) add(name, Pattern::read, 2.25 * one, op, a, b);
  for (const auto& [name, op] : kUpdates) add(name, Pattern::update, 2 * one, op, a);
  for (const auto& [name, op] : kReductions) add(name, Pattern::read, one, op, a);
  // All elements are looked at.
  add(
      "any", Pattern::read, one, [](const Tensor& x) { return any(x); }, a * 0);
  add("mse_loss", Pattern::read, 2 * one, mse_loss, a, b, "mean");
  add("l1_loss", Pattern::read, 2 * one, l1_loss, a, b, "mean");
  const auto root = static_cast<std::int64_t>(std::sqrt(side));
  const Tensor image = rand({root, root, root, root}), cl = image.to(kChannelsLast);
  const auto to_channels = [](const Tensor& x) { return sum(x, {0, 2, 3}); };
  add("sum, NCHW to C", Pattern::read, one, to_channels, image);
  add("sum, channels_last to C", Pattern::read, one, to_channels, cl);
  return list;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

double seconds_of(const Case& c, int runs) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (int i = 0; i < runs; ++i) c.run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// GB/s of a run after an untimed one, the fastest of as many as there are loops to compare with:
/// some servers' caches keep 64 MiB, of which each further pass finds more.
double op_rate(const Case& c, int times) {
  double best = 0;
  for (int i = 0; i < times; ++i) {
    c.run();
    best = std::max(best, c.bytes * 1e-9 / seconds_of(c, 1));
  }
  return best;
}

enum class Print { table, json, rounds };

void print_bandwidths(const std::vector<Case>& all, Print print) {
  const Loops loops;
  if (print == Print::table)
    std::printf("%-34s %-10s %10s %10s %8s\n", "op on 64 MiB", "kind", "GB/s", "loop", "%");
  // The pool, which runs by now, has pinned its workers from the second CPU on. A caller that the
  // threads of the loops have pushed onto a worker's CPU would stay there for many milliseconds.
  machine::pin_to(machine::usable_cpus().front());
  for (const Case& c : all) {
    std::vector<double> ours, limits, shares;
    for (int round = 0; round < kRounds; ++round) {
      const Loops::Best limit = loops.best(c.pattern);
      limits.push_back(limit.gb_s);
      ours.push_back(op_rate(c, limit.of));
      shares.push_back(100 * ours.back() / limits.back());
      if (print == Print::rounds) {
        std::printf("{\"op\": \"%s\", \"kind\": \"%s\", \"gb_s\": %.6g, \"loop_gb_s\": %.6g}\n",
                    c.name.c_str(), kPatternNames[static_cast<int>(c.pattern)], ours.back(),
                    limit.gb_s);
      }
    }
    if (print == Print::rounds) continue;
    std::printf(print == Print::json
                    ? "{\"op\": \"%s\", \"kind\": \"%s\", \"gb_s\": %.6g, \"loop_gb_s\": %.6g, "
                      "\"percent\": %.6g}\n"
                    : "%-34s %-10s %10.1f %10.1f %8.0f\n",
                c.name.c_str(), kPatternNames[static_cast<int>(c.pattern)], median(ours),
                median(limits), median(shares));
  }
}

void print_cached_times(const std::vector<Case>& all, Print print) {
  set_num_threads(1);
  constexpr int kRuns = 500;
  const bool json = print == Print::json;
  if (!json) std::printf("%-34s %s\n", "op on 16 KiB, one thread", "ns per element");
  for (const Case& c : all) {
    std::vector<double> times;
    for (int round = 0; round < kRounds; ++round) {
      times.push_back(1e9 * seconds_of(c, kRuns) / kRuns / static_cast<double>(c.elements));
    }
    std::printf(json ? "{\"op\": \"%s\", \"ns_per_element\": %.6g}\n" : "%-34s %14.3f\n",
                c.name.c_str(), median(times));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Print print = Print::table;
  bool cached = false;
  int next = 1;
  for (; next < argc && argv[next][0] == '-'; ++next) {
    const std::string_view option = argv[next];
    if (option == "--cached") {
      cached = true;
    } else if (option == "--json") {
      print = Print::json;
    } else if (option == "--rounds") {
      print = Print::rounds;
    } else {
      break;
    }
  }
  const std::string wanted = next < argc ? argv[next] : "";
  if (argc - next > 1 || wanted.starts_with("-")) {
    std::fprintf(stderr,
                 "usage: %s [--json | --rounds] [--cached] [OP]   (CPUs: those of the process, see "
                 "taskset)\n",
                 argv[0]);
    return 2;
  }
  if (!cached && static_cast<size_t>(get_num_threads()) != machine::usable_cpus().size()) {
    std::fprintf(stderr,
                 "the loops use all CPUs of the process, the ops %d threads: leave "
                 "FACULA_NUM_THREADS alone and choose CPUs with taskset\n",
                 get_num_threads());
    return 2;
  }
  const NoGradGuard no_grad;
  std::vector<Case> chosen = cases(cached ? kCachedSide : kSide);
  std::erase_if(chosen, [&](const Case& c) { return c.name.find(wanted) == std::string::npos; });
  if (chosen.empty()) {
    std::fprintf(stderr, "no op is called %s\n", wanted.c_str());
    return 2;
  }
  (cached ? print_cached_times : print_bandwidths)(chosen, print);
}
