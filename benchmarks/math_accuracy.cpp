// The error of our float functions (ops/schema/scalar.h, and activations made of them) against the
// C library's double ones: the maximum over all 2^32 arguments, or for pow and atan2 over 2^28
// random pairs, in units in the last place of the result, and the time per element; of our double
// functions against those of long double for random arguments. Needs no library; from the
// repository root, after a build:
//
//   g++ -std=c++20 -O3 -fno-math-errno -fno-trapping-math -ffp-contract=off
//     -march=x86-64-v3 -pthread -I. -Isrc -Iinclude -Ibuild/release/generated
//     benchmarks/math_accuracy.cpp -o math_accuracy
//
//   ./math_accuracy [--threads N] [--double] [--step S] [function...]
//
// --step S tries every S-th bit pattern, or an S-th of 150 million doubles. A wrong special value
// (infinity, NaN, sign of zero) counts as an infinite error. An exhaustive run takes one or two
// minutes a function on one core.

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#define FACULA_KERNEL_TU  // functors alone
#include "ops/defs/elu.h"
#include "ops/defs/silu.h"
#include "ops/defs/softplus.h"
#include "ops/schema/scalar.h"
#include "tests/ops/double_functions.h"
#include "tests/ops/float_functions.h"

namespace {

using facula::testing::DoubleBinary;
using facula::testing::DoubleUnary;
using facula::testing::kDoubleBinary;
using facula::testing::kDoubleUnary;
using facula::testing::kUnary;
using facula::testing::ulp_error;
using facula::testing::Unary;

double softplus(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }

template <class F>
void loop_of(F function, const float* __restrict in, float* __restrict out, int n) {
  for (int i = 0; i < n; ++i) out[i] = function(in[i]);
}

namespace scalar = facula::scalar;

// Their error comes from more than one function's; the promise of 2 ulp is not for them.
const Unary kActivations[] = {
    {"silu",
     [](const float* in, float* out, int n) { loop_of(scalar::silu_functor{}, in, out, n); },
     [](double x) { return x / (1 + std::exp(-x)); }, -10, 10},
    {"elu",
     [](const float* in, float* out, int n) {
       loop_of(scalar::elu_functor{{}, {1, 1, 1}}, in, out, n);
     },
     [](double x) { return x >= 0 ? x : std::expm1(x); }, -10, 10},
    {"softplus",
     [](const float* in, float* out, int n) {
       loop_of(scalar::softplus_functor{{}, {1, 20}}, in, out, n);
     },
     softplus, -10, 10},
    {"mish",
     [](const float* in, float* out, int n) {
       loop_of(
           [f = scalar::softplus_functor{{}, {1, 20}}](float x) { return x * scalar::tanh(f(x)); },
           in, out, n);
     },
     [](double x) { return x * std::tanh(softplus(x)); }, -10, 10},
};

constexpr int kBlock = 4096;
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Worst {
  double error = -1;
  double a = 0, b = 0;
  void see(double e, double x, double y = 0) {
    if (e > error) *this = {e, x, y};
  }
};

struct Options {
  unsigned threads = 1;
  bool of_double = false;
  uint64_t step = 1;
  std::vector<std::string> names;
  bool wants(const char* name) const {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  }
};

/// Calls work(chunk, worst) for all chunks on several threads; returns the worst of all. Ties go to
/// the first chunk, so that the answer does not depend on the number of threads.
template <class Work>
Worst over_chunks(unsigned threads, uint32_t chunks, Work work) {
  std::vector<Worst> worst(chunks);
  std::atomic<uint32_t> next{0};
  std::vector<std::thread> pool;
  for (unsigned t = 0; t < threads; ++t) {
    pool.emplace_back([&] {
      for (uint32_t c = next++; c < chunks; c = next++) work(c, worst[c]);
    });
  }
  for (std::thread& thread : pool) thread.join();
  Worst all;
  for (const Worst& w : worst) all.see(w.error, w.a, w.b);
  return all;
}

Worst worst_unary(const Unary& f, const Options& options) {
  constexpr uint32_t kChunks = 256;
  const uint64_t patterns = (uint64_t{1} << 32) / kChunks;
  return over_chunks(options.threads, kChunks, [&](uint32_t chunk, Worst& worst) {
    std::vector<float> in(kBlock), out(kBlock);
    for (uint64_t start = 0; start < patterns; start += kBlock * options.step) {
      const uint64_t left = (patterns - start + options.step - 1) / options.step;
      const int n = static_cast<int>(std::min<uint64_t>(kBlock, left));
      for (int i = 0; i < n; ++i) {
        in[i] = std::bit_cast<float>(
            static_cast<uint32_t>(chunk * patterns + start + i * options.step));
      }
      f.loop(in.data(), out.data(), n);
      for (int i = 0; i < n; ++i) worst.see(ulp_error(out[i], f.reference(in[i])), in[i]);
    }
  });
}

uint64_t mix(uint64_t x) {  // the finalizer of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// A function of two arguments.
struct Binary {
  const char* name;
  void (*loop)(const float* a, const float* b, float* out, int n);
  double (*reference)(double, double);
  /// Makes random bits, which a third of the pairs stay, more interesting.
  void (*draw)(int kind, uint32_t high, uint32_t low, float& a, float& b);
  float low_a, high_a, low_b, high_b;  // arguments of the timing
};

double unit(uint32_t bits) { return static_cast<double>(bits) * 0x1p-31 - 1; }  // [-1, 1)

/// Results in the range of floats; one half from bases near 1 with exponents as large as that
/// allows.
void draw_power(int kind, uint32_t high, uint32_t low, float& a, float& b) {
  a = kind == 1 ? std::abs(a) : 1 + static_cast<float>(high) * 0x1p-34f - 0.125f;
  b = static_cast<float>(unit(low) * 151 / std::log2(a));
}

/// Points near the origin, and of any distance but with coordinates of similar magnitude.
void draw_point(int kind, uint32_t high, uint32_t low, float& a, float& b) {
  if (kind == 1) a = static_cast<float>(unit(high));
  b = static_cast<float>(kind == 1 ? unit(low) : a * unit(low) * 4);
}

#define FACULA_LOOP(name)                                                                  \
  [](const float* __restrict a, const float* __restrict b, float* __restrict out, int n) { \
    for (int i = 0; i < n; ++i) out[i] = facula::scalar::name(a[i], b[i]);                 \
  }

const Binary kBinary[] = {
    {"pow", FACULA_LOOP(pow), [](double a, double b) { return std::pow(a, b); }, draw_power, 0.01f,
     10, -10, 10},
    {"atan2", FACULA_LOOP(atan2), [](double a, double b) { return std::atan2(a, b); }, draw_point,
     -10, 10, -7, 9},
};

#undef FACULA_LOOP

Worst worst_binary(const Binary& f, const Options& options) {
  constexpr uint32_t kChunks = 256;
  const uint64_t pairs = (uint64_t{1} << 28) / kChunks / options.step;
  return over_chunks(options.threads, kChunks, [&](uint32_t chunk, Worst& worst) {
    std::vector<float> a(kBlock), b(kBlock), out(kBlock);
    for (uint64_t start = 0; start < pairs; start += kBlock) {
      for (int i = 0; i < kBlock; ++i) {
        const uint64_t r = mix((uint64_t{chunk} << 32 | (start + i)) * 0x9e3779b97f4a7c15);
        const uint32_t high = static_cast<uint32_t>(r >> 32), low = static_cast<uint32_t>(r);
        a[i] = std::bit_cast<float>(high);
        b[i] = std::bit_cast<float>(low);
        if (i % 3 != 0) f.draw(i % 3, high, low, a[i], b[i]);
      }
      f.loop(a.data(), b.data(), out.data(), kBlock);
      for (int i = 0; i < kBlock; ++i) {
        worst.see(ulp_error(out[i], f.reference(a[i], b[i])), a[i], b[i]);
      }
    }
  });
}

/// Best of several runs over arrays that stay in the first-level cache.
template <class Run>
double nanoseconds(Run run, int n) {
  double best = kInf;
  for (int trial = 0; trial < 15; ++trial) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 50; ++i) run();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count() / 50 / n);
  }
  return best;
}

std::vector<float> ramp(float low, float high) {
  std::vector<float> values(2048);
  const float step = (high - low) / 2048;
  for (int i = 0; i < 2048; ++i) values[i] = low + step * static_cast<float>(i * 809 % 2048);
  return values;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool number = i + 1 < argc && std::atoi(argv[i + 1]) > 0;
    if (argument == "--threads" && number) {
      options.threads = std::atoi(argv[++i]);
    } else if (argument == "--double") {
      options.of_double = true;
    } else if (argument == "--step" && number) {
      options.step = std::atoi(argv[++i]);
    } else if (argument[0] != '-') {
      options.names.push_back(argument);
    } else {
      std::fprintf(stderr, "usage: %s [--threads N] [--double] [--step S] [function...]\n",
                   argv[0]);
      std::exit(2);
    }
  }
  return options;
}

/// Returns whether a table has the name.
template <class... Table>
bool is_known(const std::string& name, const Table&... tables) {
  const auto has_name = [&](const auto& f) { return f.name == name; };
  return (std::ranges::any_of(tables, has_name) || ...);
}

constexpr uint32_t kDoubleChunks = 256;
constexpr uint64_t kDraws = 100'000;  // of each chunk, six numbers or up to five pairs each

void report_doubles(const Options& options) {
  std::printf("| function | max ulp | at |\n|---|---|---|\n");
  const int draws = static_cast<int>(std::max<uint64_t>(kDraws / options.step, 1));
  for (const DoubleUnary& f : kDoubleUnary) {
    if (!options.wants(f.name)) continue;
    const auto work = [&](uint32_t chunk, Worst& worst) {
      for (const double x : facula::testing::double_arguments(f.low, f.high, chunk, draws)) {
        worst.see(ulp_error(f.function(x), f.exact(x)), x);
      }
    };
    const Worst worst = over_chunks(options.threads, kDoubleChunks, work);
    std::printf("| %s | %.3f | %.17g |\n", f.name, worst.error, worst.a);
    std::fflush(stdout);
  }
  for (const DoubleBinary& f : kDoubleBinary) {
    if (!options.wants(f.name)) continue;
    const auto work = [&](uint32_t chunk, Worst& worst) {
      for (const auto& [a, b] : f.pairs(chunk, draws)) {
        worst.see(ulp_error(f.function(a, b), f.exact(a, b)), a, b);
      }
    };
    const Worst worst = over_chunks(options.threads, kDoubleChunks, work);
    std::printf("| %s | %.3f | %.17g, %.17g |\n", f.name, worst.error, worst.a, worst.b);
    std::fflush(stdout);
  }
}

void report_floats(const Options& options) {
  std::printf("| function | max ulp | at | ns/element |\n|---|---|---|---|\n");
  std::vector<float> out(2048);
  const auto report = [&](const Unary& f) {
    if (!options.wants(f.name)) return;
    const std::vector<float> in = ramp(f.low, f.high);
    const double ns = nanoseconds([&] { f.loop(in.data(), out.data(), 2048); }, 2048);
    const Worst worst = worst_unary(f, options);
    std::printf("| %s | %.3f | %.9g | %.2f |\n", f.name, worst.error, worst.a, ns);
    std::fflush(stdout);
  };
  for (const Unary& f : kUnary) report(f);
  for (const Unary& f : kActivations) report(f);
  for (const Binary& f : kBinary) {
    if (!options.wants(f.name)) continue;
    const std::vector<float> a = ramp(f.low_a, f.high_a), b = ramp(f.low_b, f.high_b);
    const double ns = nanoseconds([&] { f.loop(a.data(), b.data(), out.data(), 2048); }, 2048);
    const Worst worst = worst_binary(f, options);
    std::printf("| %s | %.3f | %.9g, %.9g | %.2f |\n", f.name, worst.error, worst.a, worst.b, ns);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  for (const std::string& name : options.names) {
    const bool known = options.of_double ? is_known(name, kDoubleUnary, kDoubleBinary)
                                         : is_known(name, kUnary, kBinary) ||
                                               is_known(name, kActivations, kBinary);
    if (known) continue;
    std::fprintf(stderr, "there is no function %s\n", name.c_str());
    return 2;
  }
  options.of_double ? report_doubles(options) : report_floats(options);
}
