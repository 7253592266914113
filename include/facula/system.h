// What the machine and this build of the library offer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <facula/export.h>

namespace facula {

struct SystemInfo {
  std::string cpu;                     ///< the CPU's marketing name
  std::string isa;                     ///< kernels in use: "baseline", "avx2" or "avx512"
  std::string detected_isa;            ///< the best that the CPU has
  int usable_cpus = 0;                 ///< affinity mask and cgroup quota considered
  std::int64_t usable_memory = 0;      ///< bytes, the cgroup limit considered
  std::vector<std::string> devices;    ///< types of devices that tensors can be on
  std::vector<std::string> libraries;  ///< what computes beside our own kernels: "oneDNN 2.6.3"
};

FACULA_API SystemInfo system_info();

/// Keeps the calling thread busy with as many float32 multiply-adds as kernels of the instruction
/// set in use (SystemInfo::isa) can do at most: `rounds` rounds of some nanoseconds. Returns the
/// number of floating-point operations, two for each multiply-add; their rate is the peak that
/// other figures are compared with.
FACULA_API double run_multiply_adds(std::int64_t rounds);

}  // namespace facula
