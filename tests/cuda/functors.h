// What a GPU computes with every functor, in the shape of the CPU's inner loops: arguments and
// results lie in the host's memory. On errors of CUDA these loops throw std::runtime_error.
#pragma once

#include <string>

#include "backends/cpu/kernels/reduction.h"
#include "ops/schema/elementwise_loop.h"

namespace facula::test {

struct DeviceElementwise {
  const char* op;
  ElementwiseLoop loops[kDTypeCount];  ///< by dtype; null where the functor has none
};
struct DeviceReduction {
  const char* op;
  cpu::ReductionLoops loops[kDTypeCount];
};

extern const DeviceElementwise kDeviceElementwise[];
extern const std::size_t kDeviceElementwiseCount;
extern const DeviceReduction kDeviceReductions[];
extern const std::size_t kDeviceReductionCount;

/// Results fetched from the device so far.
std::int64_t device_results();

/// Why no loop can run; empty if there is a GPU.
std::string why_no_gpu();

}  // namespace facula::test
