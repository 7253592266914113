// How files of the CPU backend add their implementations.
#pragma once

#include "runtime/op_registry.h"

namespace facula::cpu {

/// Every backends/cpu/{winograd,ops,onednn,reference}/<stem>.cpp may define register_<stem>(), which
/// calls add() for its implementations; a list of them is generated. Order within an op's list:
/// Winograd convolution, other own kernels (ops), then libraries (onednn), then the double reference.
inline void add(OpId op, Implementation implementation) {
  register_implementation(op, DeviceType::cpu, implementation);
}

}  // namespace facula::cpu
