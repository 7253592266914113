// How files of the CPU backend add their implementations.
#pragma once

#include "runtime/op_registry.h"

namespace facula::cpu {

/// Every file of backends/cpu/{winograd,ops,onednn,reference} may define functions
/// register_<name>(), which call add() for implementations; a list of them is generated. Order
/// within an op's list: Winograd convolution, other own kernels, then libraries, then the double
/// reference.
inline void add(OpId op, Implementation implementation) {
  register_implementation(op, DeviceType::cpu, implementation);
}

}  // namespace facula::cpu
