// Reductions over dimensions: one functor, written once over its scalar type.
//
// An op file defines `struct <op>_reduction` in namespace facula::scalar with
//   template <class T> using Accumulator   what partial results are kept in
//   identity<A>()                          the neutral partial result
//   add<A>(A, T)                           takes in one element
//   add_four<A>(A, T, T, T, T)             optional: add() in turn, where that can be had for less
//   combine<A>(A, A)                       joins two partial results
//   finish<T>(A, double count)             the result from `count` elements
// Like those of elementwise ops, add, combine and finish also take the symbolic scalar; identity is
// a constant of a plain type.
// Elements are assigned to partial results by position alone and joined in a fixed tree, so the
// result is the same bits for any instruction set and number of threads.
#pragma once

#include <cstdint>
#include <type_traits>

#include <facula/dtype.h>

#include "ops/schema/scalar.h"

namespace facula::scalar {

struct Reduction {
  static constexpr DTypes dtypes = kComputeTypes;
  /// Integers and bool are reduced to int64.
  static constexpr bool widens_integers = false;
  static constexpr bool predicate = false;    ///< the result is bool
  static constexpr bool has_identity = true;  ///< reducing nothing is allowed

  template <class T>
  using Accumulator = T;

  template <class T, class A>
  FACULA_FN T finish(A total, double) const {
    return static_cast<T>(total);
  }
};

/// What says yes or no about elements: integers as wide as them, for compilers do not vectorise
/// arithmetic of bool.
template <class T>
using Flag = std::conditional_t<
    !std::is_arithmetic_v<T>, Truth<T>,
    std::conditional_t<sizeof(T) == 1, std::uint8_t,
                       std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU

#include <facula/ops.h>

#include "ops/schema/op_def.h"

namespace facula {

struct ReductionTraits {
  DTypes dtypes;
  bool widens_integers;
  bool predicate;
  bool has_identity;
};

/// Shape rule of all reductions; their attributes are `int[] dim=[], bool keepdim=False`.
void infer_reduction(Infer& infer);

template <class Functor>
inline constexpr ReductionTraits kReductionTraitsOf = {Functor::dtypes, Functor::widens_integers,
                                                       Functor::predicate, Functor::has_identity};

struct ReductionAttrs {
  Dims dim;
  bool keepdim;
};

/// A gradient of a reduction's result, expanded back over the reduced dimensions of an input.
Tensor expand_reduced(const Tensor& reduced, IntList input_sizes, const ReductionAttrs& attrs);

struct ReductionSpec {
  Required<const char*> signature;
  Required<const char*> doc;
  Required<Gradient> gradient;
  Saves saves;
  Required<Autocast> autocast;
  Required<SampleRule> samples;
  Required<ErrorRule> errors;
};

template <class Functor>
OpDef reduction(const ReductionSpec& spec) {
  return {.signature = spec.signature,
          .doc = spec.doc,
          .infer = infer_reduction,
          .gradient = spec.gradient,
          .saves = spec.saves,
          .autocast = spec.autocast,
          .determinism = Determinism::deterministic,
          .random = RandomEffect::none,
          .aliasing = Aliasing::none(),
          .fusion = Fusion::reduction,
          .samples = spec.samples,
          .errors = spec.errors,
          .reduction = &kReductionTraitsOf<Functor>};
}

void reduction_samples(Samples& samples);
void reduction_errors(ErrorSamples& errors);

}  // namespace facula

#endif  // FACULA_KERNEL_TU
