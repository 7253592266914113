// What this machine and this process's share of it offer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <facula/export.h>

namespace facula::base {

/// Instruction sets that kernels are compiled for, in ascending order. `kAvx2` comes with FMA, F16C
/// and BMI2; `kAvx512` is F, BW, DQ, VL and CD. Only `kBaseline` exists on other architectures.
enum class CpuCapability : uint8_t { kBaseline, kAvx2, kAvx512 };

/// "baseline", "avx2" or "avx512".
FACULA_API const char* to_string(CpuCapability capability) noexcept;

/// The inverse of to_string; throws VariableError that lists the values and names `source`.
FACULA_API CpuCapability parse_cpu_capability(const std::string& text, const char* source);

/// The best capability of CPU and operating system.
FACULA_API CpuCapability detected_cpu_capability() noexcept;

/// The capability to use: the detected one, capped by FACULA_CPU_CAPABILITY, or the one that the
/// library was built for alone (FACULA_ONE_ISA). Throws VariableError if that variable has an
/// unknown value, or if there are no kernels that may run.
FACULA_API CpuCapability cpu_capability();

/// Whether kernels have vectors of 512 bits and 32 registers for them.
inline bool uses_avx512() { return cpu_capability() == CpuCapability::kAvx512; }

/// Whether the CPU computes vectors of 512 bits in two halves, as AMD's Zen 4 does: then a shuffle
/// of a half costs half of one of the whole.
FACULA_API bool computes_avx512_in_halves();

/// CPUs that the affinity mask of the process allows, ascending; read once.
FACULA_API const std::vector<int>& affinity_cpus();

/// CPUs this process can keep busy: those of the affinity mask, or the cgroup quota (rounded up) if
/// less. At least 1; read once.
FACULA_API int usable_cpus();

/// Limits of control groups; absent where unlimited.
struct CgroupLimits {
  std::optional<double> cpus;
  std::optional<int64_t> memory_bytes;
};

/// The tightest limits of the process's control group and its ancestors, versions 1 and 2. `root`
/// is put before /proc and /sys, so that tests can supply a file system of their own.
FACULA_API CgroupLimits read_cgroup_limits(const std::string& root = "");

/// Physical memory in bytes.
FACULA_API int64_t physical_memory_bytes();
/// Memory this process may use, in bytes: physical memory or the cgroup limit if less.
FACULA_API int64_t usable_memory_bytes();

/// Sizes in bytes of the caches seen by the first CPU; conservative guesses where the system does
/// not tell. `l3` is shared by several cores, and 0 if there is none.
struct CacheSizes {
  int64_t l1_data = 32 << 10;
  int64_t l2 = 256 << 10;
  int64_t l3 = 0;
};
FACULA_API const CacheSizes& cache_sizes();

/// The marketing name of the CPU, such as "AMD EPYC 9654"; "unknown CPU" if the system does not
/// tell.
FACULA_API const std::string& cpu_model_name();

}  // namespace facula::base
