// What this machine can do at most, as a table or as JSON, with one thread and with all: what
// `facula info` measures, and what moves more in one direction than in the other, as convolutions
// with strides and pooling do.
//
//   bench_machine_limits [--json]

#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "benchmarks/stream_line.h"
#include "cli/machine_limits.h"

namespace {

using facula::machine::Array;
using facula::machine::Limit;
using facula::machine::Line;
using facula::machine::Rate;

/// Reads four lines for each that it writes past the caches.
void gather_lines(Line* y, const Line* x, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    facula::machine::stream(y + i, x[4 * i] + x[4 * i + 1] + x[4 * i + 2] + x[4 * i + 3]);
  }
  facula::machine::finish_streaming();
}

/// Writes two lines past the caches for every four that it reads: maxima and their places.
void choose_lines(Line* y, const Line* x, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const Line first = x[4 * i] + x[4 * i + 1], second = x[4 * i + 2] + x[4 * i + 3];
    facula::machine::stream(y + i, first + second);
    facula::machine::stream(y + count + i, first - second);
  }
  facula::machine::finish_streaming();
}

/// Writes four lines past the caches for every two that it reads.
void spread_lines(Line* y, const Line* x, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const Line sum = x[i] + x[count + i];
    for (size_t k = 0; k < 4; ++k) facula::machine::stream(y + 4 * i + k, sum);
  }
  facula::machine::finish_streaming();
}

using MixedLoop = void (*)(Line* y, const Line* x, size_t count);

/// GB/s of a loop that moves so many lines for each that it counts.
Rate mixed_gb_s(const std::vector<int>& cpus, Array& x, Array& y, MixedLoop loop, int lines) {
  const int threads = static_cast<int>(cpus.size());
  const size_t count = Array::part_lines(threads) / 4;
  return facula::machine::rate_of(cpus, [&](int thread) {
    loop(y.part(thread, threads), x.part(thread, threads), count);
    return 1e-9 * lines * static_cast<double>(count * sizeof(Line));
  });
}

std::vector<Limit> measure_mixed(const std::vector<int>& cpus) {
  const std::vector<int> first{cpus[0]};
  Array x, y;
  facula::machine::inplace_gb_s(cpus, x, 1);  // touches the pages
  const auto limit = [&](const char* key, const char* label, MixedLoop loop, int lines) {
    return Limit{key, label, mixed_gb_s(first, x, y, loop, lines),
                 mixed_gb_s(cpus, x, y, loop, lines)};
  };
  return {limit("gather_gb_s", "GB/s, 4 lines read, 1 written", gather_lines, 5),
          limit("choose_gb_s", "GB/s, 4 lines read, 2 written", choose_lines, 6),
          limit("spread_gb_s", "GB/s, 2 lines read, 4 written", spread_lines, 6)};
}

void print_table(const std::vector<Limit>& limits, const char* isa, size_t threads) {
  std::printf("%-30s %24s %20zu thread%s   (%s; median, min..max)\n", "", "1 thread", threads,
              threads == 1 ? "" : "s", isa);
  for (const Limit& l : limits) {
    std::printf("%-30s %8.1f (%.1f..%.1f) %*s %8.1f (%.1f..%.1f)\n", l.label, l.one.median,
                l.one.min, l.one.max, 4, "", l.all.median, l.all.min, l.all.max);
  }
}

void print_json(const std::vector<Limit>& limits, const char* isa, size_t threads) {
  std::printf("{\"isa\": \"%s\", \"threads\": %zu", isa, threads);
  const auto print_rate = [](const Rate& r) {
    std::printf("{\"median\": %.6g, \"min\": %.6g, \"max\": %.6g}", r.median, r.min, r.max);
  };
  for (const Limit& l : limits) {
    std::printf(", \"%s\": {\"one\": ", l.key);
    print_rate(l.one);
    std::printf(", \"all\": ");
    print_rate(l.all);
    std::printf("}");
  }
  std::printf("}\n");
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc == 2 && std::strcmp(argv[1], "--json") == 0;
  if (argc > 1 && !json) {
    std::fprintf(stderr, "usage: %s [--json]   (CPUs: those of the process, see taskset)\n",
                 argv[0]);
    return 2;
  }
  const std::string isa = facula::system_info().isa;
  const std::vector<int> cpus = facula::machine::usable_cpus();
  try {
    std::vector<Limit> limits = facula::machine::measure_all(cpus);
    for (const Limit& mixed : measure_mixed(cpus)) limits.push_back(mixed);
    (json ? print_json : print_table)(limits, isa.c_str(), cpus.size());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: no memory for two arrays of %zu MiB; free some memory\n", argv[0],
                 facula::machine::kArrayBytes >> 20);
    return 1;
  }
}
