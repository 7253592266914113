// Elementwise ops and reductions on 64 MiB against hand-written loops that move the same bytes.
//
//   bench_bandwidth [--json] [OP]     OP: only ops whose names contain it
//
// Every run of an op follows one of the loop of its kind, and the median of the ratios counts: the
// bandwidth of a shared machine changes from second to second. Kinds: reading; changing in place;
// reading one or two arrays and writing a third. Loops that write a new array come with ordinary
// and with non-temporal stores, of which the faster counts. Bytes are those the op reads and writes
// once.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <facula/autograd.h>
#include <facula/ops.h>
#include <facula/parallel.h>

#include "cli/machine_limits.h"

namespace {

using namespace facula;
using machine::Line;

constexpr std::int64_t kElements = 16 << 20;  // of 4 bytes
constexpr double kBytes = 4.0 * kElements;
constexpr int kRounds = 25;

// --- The loops to compare with -------------------------------------------------------------------

FACULA_EVERY_TARGET void map_lines(Line* y, const Line* x, size_t count) {
  for (size_t i = 0; i < count; ++i) y[i] = x[i] * 0.5f + 1.0f;
}

FACULA_EVERY_TARGET void zip_lines(Line* z, const Line* x, const Line* y, size_t count) {
  for (size_t i = 0; i < count; ++i) z[i] = x[i] + y[i];
}

#if defined(__x86_64__)
void stream(Line* to, const Line& value) {
  for (int k = 0; k < 4; ++k) {
    __m128 part;
    std::memcpy(&part, reinterpret_cast<const char*>(&value) + 16 * k, 16);
    _mm_stream_ps(reinterpret_cast<float*>(to) + 4 * k, part);
  }
}

void map_lines_streaming(Line* y, const Line* x, size_t count) {
  for (size_t i = 0; i < count; ++i) stream(y + i, x[i] * 0.5f + 1.0f);
  _mm_sfence();
}

void zip_lines_streaming(Line* z, const Line* x, const Line* y, size_t count) {
  for (size_t i = 0; i < count; ++i) stream(z + i, x[i] + y[i]);
  _mm_sfence();
}
#else
constexpr auto map_lines_streaming = map_lines;
constexpr auto zip_lines_streaming = zip_lines;
#endif

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

  /// GB/s of the faster loop of this kind.
  double rate(Pattern pattern) const {
    const auto best = [&](auto ordinary, auto streaming, double bytes) {
      return std::max(measure(ordinary, bytes), measure(streaming, bytes));
    };
    switch (pattern) {
      case Pattern::read:
        return measure([](Line* x, Line*, Line*, size_t n) { machine::read_lines(x, n); }, kBytes);
      case Pattern::update:
        return measure([](Line* x, Line*, Line*, size_t n) { machine::update_lines(x, n); },
                       2 * kBytes);
      case Pattern::map:
        return best([](Line* x, Line* y, Line*, size_t n) { map_lines(y, x, n); },
                    [](Line* x, Line* y, Line*, size_t n) { map_lines_streaming(y, x, n); },
                    2 * kBytes);
      case Pattern::zip:
        return best([](Line* x, Line* y, Line* z, size_t n) { zip_lines(z, x, y, n); },
                    [](Line* x, Line* y, Line* z, size_t n) { zip_lines_streaming(z, x, y, n); },
                    3 * kBytes);
    }
    return 0;
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
  std::function<void()> run;
};

constexpr std::pair<const char*, Tensor (*)(const Tensor&)> kUnary[] = {
    {"neg", neg},     {"abs", abs},         {"relu", relu},
    {"sqrt", sqrt},   {"rsqrt", rsqrt},     {"reciprocal", reciprocal},
    {"exp", exp},     {"exp2", exp2},       {"expm1", expm1},
    {"log", log},     {"log1p", log1p},     {"log2", log2},
    {"log10", log10}, {"sigmoid", sigmoid}, {"tanh", tanh},
    {"erf", erf},     {"erfc", erfc},       {"sin", sin},
    {"cos", cos},     {"tan", tan},         {"atan", atan},
    {"sinh", sinh},   {"cosh", cosh},       {"silu", silu},
};

std::vector<Case> cases() {
  // Values for which every function is defined and none saturates.
  const Tensor a = rand({4096, 4096}) + 0.5, b = rand({4096, 4096}) + 0.5;
  const Tensor mask = a < b;
  const Tensor image = rand({64, 64, 64, 64}), cl = image.to(kChannelsLast);
  std::vector<Case> list;
  const auto add_map = [&](const char* name, std::function<Tensor(const Tensor&)> op) {
    list.push_back({name, Pattern::map, 2 * kBytes, [=] { op(a); }});
  };
  for (const auto& [name, op] : kUnary) add_map(name, op);
  add_map("x * 2", [](const Tensor& x) { return x * 2; });
  add_map("clamp", [](const Tensor& x) { return clamp(x, 0.6, 1.2); });
  add_map("gelu", [](const Tensor& x) { return gelu(x); });
  for (const std::int64_t classes : {1000, 4096}) {
    const Tensor rows = rand({kElements / classes, classes});
    const auto add_rows = [&](const char* name, Tensor (*op)(const Tensor&, std::int64_t)) {
      list.push_back({fmt::format("{}, rows of {}", name, classes), Pattern::map,
                      2.0 * static_cast<double>(rows.nbytes()), [=] { op(rows, 1); }});
    };
    add_rows("softmax", softmax);
    add_rows("log_softmax", log_softmax);
    const auto add_gradient = [&](const char* name, const Tensor& output,
                                  Tensor (*op)(const Tensor&, const Tensor&, std::int64_t)) {
      list.push_back({fmt::format("{} gradient, rows of {}", name, classes), Pattern::zip,
                      3.0 * static_cast<double>(rows.nbytes()), [=] { op(rows, output, 1); }});
    };
    add_gradient("softmax", softmax(rows, 1), softmax_backward);
    add_gradient("log_softmax", log_softmax(rows, 1), log_softmax_backward);
  }
  const auto add_zip = [&](const char* name,
                           std::function<Tensor(const Tensor&, const Tensor&)> op) {
    list.push_back({name, Pattern::zip, 3 * kBytes, [=] { op(a, b); }});
  };
  add_zip("a + b", [](const Tensor& x, const Tensor& y) { return x + y; });
  add_zip("a * b", [](const Tensor& x, const Tensor& y) { return x * y; });
  add_zip("a / b", [](const Tensor& x, const Tensor& y) { return x / y; });
  add_zip("maximum", [](const Tensor& x, const Tensor& y) { return maximum(x, y); });
  add_zip("pow", [](const Tensor& x, const Tensor& y) { return pow(x, y); });
  // Results of one byte an element: reading counts, and a quarter for writing.
  list.push_back({"a < b", Pattern::read, 2.25 * kBytes, [=] { a < b; }});
  list.push_back({"where(mask, a, b)", Pattern::zip, 3.25 * kBytes, [=] { where(mask, a, b); }});
  const auto add_update = [&](const char* name, std::function<void(const Tensor&)> op) {
    list.push_back({name, Pattern::update, 2 * kBytes, [=] { op(a); }});
  };
  add_update("mul_", [](const Tensor& x) { x.mul_(1.0001); });
  add_update("relu_", [](const Tensor& x) { x.relu_(); });
  add_update("sigmoid_", [](const Tensor& x) { x.sigmoid_(); });
  const auto add_reduction = [&](const char* name, Tensor input,
                                 std::function<Tensor(const Tensor&)> op) {
    list.push_back({name, Pattern::read, kBytes, [=] { op(input); }});
  };
  add_reduction("sum", a, [](const Tensor& x) { return sum(x); });
  add_reduction("sum, dim 0", a, [](const Tensor& x) { return sum(x, {0}); });
  add_reduction("sum, dim 1", a, [](const Tensor& x) { return sum(x, {1}); });
  add_reduction("mean", a, [](const Tensor& x) { return mean(x); });
  add_reduction("amax, dim 1", a, [](const Tensor& x) { return amax(x, {1}); });
  add_reduction("amin, dim 0", a, [](const Tensor& x) { return amin(x, {0}); });
  add_reduction("var", a, [](const Tensor& x) { return var(x); });
  add_reduction("var, dim 1", a, [](const Tensor& x) { return var(x, {1}); });
  add_reduction("argmax, dim 1", a, [](const Tensor& x) { return argmax(x, 1); });
  list.push_back({"mse_loss", Pattern::read, 2 * kBytes, [=] { mse_loss(a, b); }});
  list.push_back({"l1_loss", Pattern::read, 2 * kBytes, [=] { l1_loss(a, b); }});
  add_reduction("l2_norm", a, [](const Tensor& x) { return l2_norm(x); });
  add_reduction("sum, NCHW to C", image, [](const Tensor& x) { return sum(x, {0, 2, 3}); });
  add_reduction("sum, channels_last to C", cl, [](const Tensor& x) { return sum(x, {0, 2, 3}); });
  return list;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

/// GB/s of one run after an untimed one, as for the loops.
double op_rate(const Case& c) {
  using Clock = std::chrono::steady_clock;
  c.run();
  const auto start = Clock::now();
  c.run();
  return c.bytes * 1e-9 / std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
  const int rest = argc - 1 - json;
  const std::string wanted = rest > 0 ? argv[argc - 1] : "";
  if (rest > 1 || wanted.starts_with("-")) {
    std::fprintf(stderr, "usage: %s [--json] [OP]   (CPUs: those of the process, see taskset)\n",
                 argv[0]);
    return 2;
  }
  const NoGradGuard no_grad;
  const Loops loops;
  if (!json)
    std::printf("%-34s %-10s %10s %10s %8s\n", "op on 64 MiB", "kind", "GB/s", "loop", "%");
  const std::vector<Case> all = cases();
  // The pool, which runs by now, has pinned its workers from the second CPU on. A caller that the
  // threads of the loops have pushed onto a worker's CPU would stay there for many milliseconds.
  machine::pin_to(machine::usable_cpus().front());
  if (std::ranges::none_of(
          all, [&](const Case& c) { return c.name.find(wanted) != std::string::npos; })) {
    std::fprintf(stderr, "no op is called %s\n", wanted.c_str());
    return 2;
  }
  for (const Case& c : all) {
    if (c.name.find(wanted) == std::string::npos) continue;
    std::vector<double> ours, limits, shares;
    for (int round = 0; round < kRounds; ++round) {
      limits.push_back(loops.rate(c.pattern));
      ours.push_back(op_rate(c));
      shares.push_back(100 * ours.back() / limits.back());
    }
    std::printf(json ? "{\"op\": \"%s\", \"kind\": \"%s\", \"gb_s\": %.6g, \"loop_gb_s\": %.6g, "
                       "\"percent\": %.6g}\n"
                     : "%-34s %-10s %10.1f %10.1f %8.0f\n",
                c.name.c_str(), kPatternNames[static_cast<int>(c.pattern)], median(ours),
                median(limits), median(shares));
  }
}
