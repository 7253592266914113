// What this machine can do at most, as a table or as JSON, with one thread and with all.
//
//   bench_machine_limits [--json]

#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "cli/machine_limits.h"

namespace {

using facula::machine::Limit;
using facula::machine::Rate;

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
    const std::vector<Limit> limits = facula::machine::measure_all(cpus);
    (json ? print_json : print_table)(limits, isa.c_str(), cpus.size());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: no memory for two arrays of %zu MiB; free some memory\n", argv[0],
                 facula::machine::kArrayBytes >> 20);
    return 1;
  }
}
