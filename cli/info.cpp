// `facula info`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <facula/json_line.h>
#include <facula/parallel.h>
#include <facula/system.h>
#include <facula/version.h>

#include "cli/commands.h"
#include "cli/machine_limits.h"

namespace facula::cli {

int run_info(const InfoOptions& options) {
  const std::vector<int> cpus = machine::usable_cpus();
  const SystemInfo system = system_info();
  std::fputs("measuring the machine, about 10 s ...\n", stderr);
  const auto limits = machine::measure_all(cpus);
  const double memory_gib = static_cast<double>(system.usable_memory) / (1 << 30);
  if (options.json) {
    JsonLine line;
    line.add("version", kVersion)
        .add("cpu", system.cpu)
        .add("isa", system.isa)
        .add("detected_isa", system.detected_isa)
        .add("usable_cpus", system.usable_cpus)
        .add("threads", get_num_threads())
        .add("memory_gib", memory_gib)
        .add("devices", fmt::format("{}", fmt::join(system.devices, ", ")))
        .add("libraries", fmt::format("{}", fmt::join(system.libraries, ", ")));
    for (const machine::Limit& limit : limits) {
      line.add(limit.key, limit.all.median).add(std::string(limit.key) + "_1", limit.one.median);
    }
    fmt::print("{}\n", line.str());
    return 0;
  }
  fmt::print("Facula {}\n", kVersion);
  fmt::print("{:<30} {}\n", "CPU", system.cpu);
  fmt::print("{:<30} {} (the CPU has {})\n", "kernels for", system.isa, system.detected_isa);
  fmt::print("{:<30} {} of {} usable CPUs\n", "threads", get_num_threads(), system.usable_cpus);
  fmt::print("{:<30} {:.1f} GiB\n", "usable memory", memory_gib);
  fmt::print("{:<30} {}\n", "devices", fmt::join(system.devices, ", "));
  fmt::print("{:<30} {}\n", "libraries", fmt::join(system.libraries, ", "));
  for (const machine::Limit& limit : limits) {
    fmt::print("{:<30} {:.1f} with {} threads, {:.1f} with one\n", limit.label, limit.all.median,
               cpus.size(), limit.one.median);
  }
  return 0;
}

}  // namespace facula::cli
