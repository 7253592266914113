#include "backends/cpu/registration.h"

#include "backends/cpu/elementwise.h"
#include "backends/cpu/elementwise_reference.h"
#include "backends/cpu/kernels/kernel_names.h"
#include "backends/cpu/kernels/peak.h"
#include "backends/cpu/peak.h"
#include "backends/cpu/reduction.h"
#include "backends/registration.h"
#include "base/cpu_info.h"

// Tables of inner loops, declared for every instruction set. The generated list undefines the
// macros.
#define FACULA_DECLARE_LOOPS(op) extern const ElementwiseLoop elementwise_##op[kDTypeCount];
#define FACULA_DECLARE_REDUCTION(op) extern const ReductionLoops reduction_##op[kDTypeCount];

#define FACULA_ELEMENTWISE_KERNEL FACULA_DECLARE_LOOPS
#define FACULA_REDUCTION_KERNEL FACULA_DECLARE_REDUCTION
#ifdef FACULA_ONE_ISA
namespace facula::cpu::FACULA_ONE_ISA {
#include "cpu/kernel_list.inc"
}
#else
namespace facula::cpu::baseline {
#include "cpu/kernel_list.inc"
}
#define FACULA_ELEMENTWISE_KERNEL FACULA_DECLARE_LOOPS
#define FACULA_REDUCTION_KERNEL FACULA_DECLARE_REDUCTION
namespace facula::cpu::avx2 {
#include "cpu/kernel_list.inc"
}
#define FACULA_ELEMENTWISE_KERNEL FACULA_DECLARE_LOOPS
#define FACULA_REDUCTION_KERNEL FACULA_DECLARE_REDUCTION
namespace facula::cpu::avx512 {
#include "cpu/kernel_list.inc"
}
#endif

namespace facula::cpu {

#define FACULA_CPU_FILE(stem) void register_##stem();
#include "cpu/registration_list.inc"
#undef FACULA_CPU_FILE

int active_isa = 0;

namespace {

void use_loops(OpId id, const ElementwiseLoop* loops) {
  for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
    elementwise_loops[static_cast<int>(id)][dtype] = loops[dtype];
  }
}

void register_functors() {
#define FACULA_ELEMENTWISE_KERNEL(op)                       \
  use_loops(OpId::op, FACULA_SELECT_ISA(elementwise_##op)); \
  add(OpId::op, {"vectorized", nullptr, run_elementwise});  \
  add(OpId::op, {"reference", nullptr, run_elementwise_reference});
#define FACULA_REDUCTION_KERNEL(op)                                                \
  reduction_loops[static_cast<int>(OpId::op)] = FACULA_SELECT_ISA(reduction_##op); \
  add(OpId::op, {"vectorized", nullptr, run_reduction});                           \
  add(OpId::op, {"reference", nullptr, run_reduction_reference});
#ifdef FACULA_ONE_ISA
#define FACULA_SELECT_ISA(name) FACULA_ONE_ISA::name
#else
#define FACULA_SELECT_ISA(name) \
  (active_isa == 2 ? avx512::name : active_isa == 1 ? avx2::name : baseline::name)
#endif
#include "cpu/kernel_list.inc"
}

}  // namespace

void register_backend() {
  active_isa = static_cast<int>(base::cpu_capability());
  register_peak(DeviceType::cpu, measure_peak_gflops);
  register_multiply_adds(peak_kernels().multiply_add);
  register_functors();
#define FACULA_CPU_FILE(stem) register_##stem();
#include "cpu/registration_list.inc"
#undef FACULA_CPU_FILE
}

}  // namespace facula::cpu
