#include "base/cpu_info.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/check.h"
#include "base/env.h"

namespace facula::base {
namespace {

constexpr std::array<const char*, 3> kCapabilityNames = {"baseline", "avx2", "avx512"};

/// The first line of a file, if it can be read.
std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

/// The integer that `text` begins with.
std::optional<int64_t> leading_int(std::string_view text) {
  int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

std::optional<int64_t> int_from_file(const std::string& path) {
  const auto line = first_line(path);
  return line ? leading_int(*line) : std::nullopt;
}

template <class T>
void tighten(std::optional<T>& limit, T candidate) {
  if (!limit || candidate < *limit) limit = candidate;
}

void tighten_cpus(CgroupLimits& limits, std::optional<int64_t> quota,
                  std::optional<int64_t> period) {
  // Without a limit, version 2 writes "max", which is no number, and version 1 writes -1.
  if (!quota || !period || *quota <= 0 || *period <= 0) return;
  tighten(limits.cpus, static_cast<double>(*quota) / static_cast<double>(*period));
}

void read_v2(CgroupLimits& limits, const std::string& folder) {
  const auto cpu = first_line(folder + "/cpu.max");  // "quota period", quota may be "max"
  const size_t space = cpu ? cpu->find(' ') : std::string::npos;
  if (space != std::string::npos) {
    tighten_cpus(limits, leading_int(*cpu), leading_int(std::string_view(*cpu).substr(space + 1)));
  }
  const auto memory = int_from_file(folder + "/memory.max");
  if (memory && *memory > 0) tighten(limits.memory_bytes, *memory);
}

void read_v1_cpu(CgroupLimits& limits, const std::string& folder) {
  tighten_cpus(limits, int_from_file(folder + "/cpu.cfs_quota_us"),
               int_from_file(folder + "/cpu.cfs_period_us"));
}

void read_v1_memory(CgroupLimits& limits, const std::string& folder) {
  // Without a limit, version 1 writes a number near 2^63, which tightens nothing.
  const auto memory = int_from_file(folder + "/memory.limit_in_bytes");
  if (memory && *memory > 0) tighten(limits.memory_bytes, *memory);
}

/// Reads the group `path` below `mount` and all its ancestors. A container often sees its own group
/// as the mount itself, while /proc tells a path of the host that does not exist: then only the
/// last step, the mount, is found.
void read_ancestry(CgroupLimits& limits, const std::string& mount, std::string path,
                   void (*read)(CgroupLimits&, const std::string&)) {
  while (!path.empty()) {
    if (path != "/") read(limits, mount + path);
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
  read(limits, mount);
}

bool lists_controller(std::string_view list, std::string_view controller) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == controller) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

CacheSizes read_cache_sizes() {
  CacheSizes sizes;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    const auto level = int_from_file(folder + "level");
    const auto type = first_line(folder + "type");
    const auto size = first_line(folder + "size");  // such as "32K"
    if (!level || !type || !size || *type == "Instruction") continue;
    const auto number = leading_int(*size);
    if (!number || *number <= 0) continue;
    const int64_t bytes = *number << (size->back() == 'M' ? 20 : size->back() == 'K' ? 10 : 0);
    if (*level == 1) sizes.l1_data = bytes;
    if (*level == 2) sizes.l2 = bytes;
    if (*level == 3) sizes.l3 = bytes;
  }
  return sizes;
}

std::vector<int> read_affinity() {
  // Masks of more than CPU_SETSIZE CPUs need a larger set than the fixed one.
  for (int bits = CPU_SETSIZE; bits <= (1 << 20); bits *= 2) {
    std::vector<unsigned long> words(static_cast<size_t>(bits) / (8 * sizeof(unsigned long)));
    auto* set = reinterpret_cast<cpu_set_t*>(words.data());
    const size_t bytes = words.size() * sizeof(unsigned long);
    // The main thread's mask: another thread's may have been narrowed by its owner.
    if (sched_getaffinity(getpid(), bytes, set) != 0) continue;
    std::vector<int> cpus;
    for (int cpu = 0; cpu < bits; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set)) cpus.push_back(cpu);
    }
    if (!cpus.empty()) return cpus;
  }
  return {0};
}

#ifdef FACULA_ONE_ISA
#define FACULA_QUOTE_(name) #name
#define FACULA_QUOTE(name) FACULA_QUOTE_(name)
/// The capability that kernels are compiled for; throws if it is more than `usable`.
CpuCapability the_only_one(CpuCapability usable) {
  const CpuCapability compiled =
      parse_cpu_capability(FACULA_QUOTE(FACULA_ONE_ISA), "FACULA_ONE_ISA");
  if (compiled <= usable) return compiled;
  fail<VariableError>(
      "this library has kernels for {} alone, where CPU and FACULA_CPU_CAPABILITY allow {}; "
      "build it without FACULA_ONE_ISA",
      to_string(compiled), to_string(usable));
}
#endif

}  // namespace

const char* to_string(CpuCapability capability) noexcept {
  return kCapabilityNames[static_cast<size_t>(capability)];
}

CpuCapability parse_cpu_capability(const std::string& text, const char* source) {
  for (size_t i = 0; i < kCapabilityNames.size(); ++i) {
    if (text == kCapabilityNames[i]) return static_cast<CpuCapability>(i);
  }
  fail<VariableError>("{}='{}' is unknown; use baseline, avx2 or avx512", source, text);
}

CpuCapability detected_cpu_capability() noexcept {
#if defined(__x86_64__)
  // These builtins also ask whether the operating system saves the wide registers.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("bmi2")) {
    return CpuCapability::kBaseline;
  }
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;  // Clang 14's builtin does not know f16c
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & bit_F16C) == 0) {
    return CpuCapability::kBaseline;
  }
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
  return avx512 ? CpuCapability::kAvx512 : CpuCapability::kAvx2;
#else
  return CpuCapability::kBaseline;
#endif
}

CpuCapability cpu_capability() {
  static const CpuCapability capability = [] {
    const CpuCapability detected = detected_cpu_capability();
    const auto cap = env_string("FACULA_CPU_CAPABILITY");
    const CpuCapability usable =
        cap ? std::min(detected, parse_cpu_capability(*cap, "FACULA_CPU_CAPABILITY")) : detected;
#ifdef FACULA_ONE_ISA
    return the_only_one(usable);
#else
    return usable;
#endif
  }();
  return capability;
}

bool computes_avx512_in_halves() {
#if defined(__x86_64__)
  static const bool halves = [] {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
    constexpr unsigned kZen3And4 = 25;  // the former without AVX-512
    const unsigned family = (eax >> 8 & 0xf) + (eax >> 20 & 0xff);
    return __builtin_cpu_is("amd") && family == kZen3And4;
  }();
  return halves;
#else
  return false;
#endif
}

const std::vector<int>& affinity_cpus() {
  static const std::vector<int>* const cpus = new std::vector<int>(read_affinity());
  return *cpus;
}

int usable_cpus() {
  static const int count = [] {
    const int allowed = static_cast<int>(affinity_cpus().size());
    const auto quota = read_cgroup_limits().cpus;
    if (!quota || *quota >= allowed) return allowed;
    return std::max(1, static_cast<int>(std::ceil(*quota)));
  }();
  return count;
}

CgroupLimits read_cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  // Lines "hierarchy:controllers:path"; version 2 has hierarchy 0 and no controllers.
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      read_ancestry(limits, mount, path, read_v2);
      read_ancestry(limits, mount + "/unified", path, read_v2);  // mounted beside version 1
    } else if (lists_controller(controllers, "cpu")) {
      read_ancestry(limits, mount + "/cpu", path, read_v1_cpu);
    } else if (lists_controller(controllers, "memory")) {
      read_ancestry(limits, mount + "/memory", path, read_v1_memory);
    }
  }
  return limits;
}

int64_t physical_memory_bytes() {
  static const int64_t bytes =
      static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

int64_t usable_memory_bytes() {
  static const int64_t bytes =
      std::min(physical_memory_bytes(), read_cgroup_limits().memory_bytes.value_or(INT64_MAX));
  return bytes;
}

const CacheSizes& cache_sizes() {
  static const CacheSizes sizes = read_cache_sizes();
  return sizes;
}

const std::string& cpu_model_name() {
  static const std::string* const name = [] {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
      const size_t colon = line.find(": ");
      if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
        return new std::string(line.substr(colon + 2));
      }
    }
    return new std::string("unknown CPU");
  }();
  return *name;
}

}  // namespace facula::base
