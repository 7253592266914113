// How kernel translation units, compiled once per instruction set, are reached from ordinary code.
//
// A kernel file backends/cpu/kernels/<stem>.cpp is compiled several times, each time with
// FACULA_ISA set to another namespace. It must export nothing but one table of function pointers,
// and must not use inline functions with external linkage (std::vector, ...): the linker could pick
// a copy that uses instructions the machine lacks.
#pragma once

#include <cstdint>

#include <facula/dtype.h>

#define FACULA_PASTE_(a, b) a##b
#define FACULA_PASTE(a, b) FACULA_PASTE_(a, b)

#define FACULA_INLINED __attribute__((always_inline))  // for lambdas

namespace facula::cpu {

/// The instruction set in use: 0 baseline, 1 AVX2, 2 AVX-512. Set once at registration.
extern int active_isa;

}  // namespace facula::cpu

#ifndef FACULA_ONE_ISA
/// Declares `type name_kernels` in every instruction set's namespace and `name_kernels()`, which
/// returns the active one.
#define FACULA_DECLARE_KERNELS(type, name)                     \
  namespace facula::cpu {                                      \
  namespace baseline {                                         \
  extern const type name##_kernels;                            \
  }                                                            \
  namespace avx2 {                                             \
  extern const type name##_kernels;                            \
  }                                                            \
  namespace avx512 {                                           \
  extern const type name##_kernels;                            \
  }                                                            \
  [[gnu::always_inline]] inline const type& name##_kernels() { \
    return active_isa == 2   ? avx512::name##_kernels          \
           : active_isa == 1 ? avx2::name##_kernels            \
                             : baseline::name##_kernels;       \
  }                                                            \
  }
#else
#define FACULA_DECLARE_KERNELS(type, name)                     \
  namespace facula::cpu {                                      \
  namespace FACULA_ONE_ISA {                                   \
  extern const type name##_kernels;                            \
  }                                                            \
  [[gnu::always_inline]] inline const type& name##_kernels() { \
    return FACULA_ONE_ISA::name##_kernels;                     \
  }                                                            \
  }
#endif
