// Elementwise ops: one functor, written once over its scalar type, serves every backend.
//
// An op file defines `struct <op>_functor` in namespace facula::scalar, derived from one of the
// categories below and, if the op has attributes, from ops::<op>_attrs. Its call operator is a
// template over the scalar type that uses only the vocabulary of ops/schema/scalar.h. One of one or
// two inputs may add rarity(), the bound `rare` and common(): of floats whose rarity is below the
// bound, and of doubles where it has both for these, too, common() gives the same bits faster, and
// kernels may use it where no argument of a block is rare. halfway() and complete() are common() in
// two parts, for processors that are kept waiting by one long chain of operations; begin() before
// them makes it three, where halfway() is asked for a rarity, too, below the bound `rare_halfway`.
// One of one input may have near() instead of common(float), a template that kernels call with
// vectors, as well as rarity(), where compilers find no good way from floats to them: for arguments
// that are not rare, or all if there is no bound, it gives the same bits. Kernel translation units
// define FACULA_KERNEL_TU and see nothing but the functor.
#pragma once

#include <facula/dtype.h>

#include "ops/schema/scalar.h"

namespace facula::scalar {

/// Numeric in, same dtype out.
struct NumericFunctor {
  static constexpr DTypes dtypes = kNumericTypes;
  static constexpr bool to_float = false;   ///< integers become the default floating dtype
  static constexpr bool predicate = false;  ///< the result is bool
  static constexpr int mask_inputs = 0;     ///< leading inputs that are bool masks
};
/// float32/float64; integer inputs are converted first.
struct FloatingFunctor : NumericFunctor {
  static constexpr DTypes dtypes = kFloatingTypes;
  static constexpr bool to_float = true;
};
/// Any compute type in, bool out.
struct PredicateFunctor : NumericFunctor {
  static constexpr DTypes dtypes = kComputeTypes;
  static constexpr bool predicate = true;
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU

#include <facula/ops.h>

#include "ops/schema/op_def.h"

namespace facula {

/// Shape rule of all elementwise ops: inputs broadcast; the layout of the inputs is kept.
void infer_elementwise(Infer& infer);

template <class Functor>
inline constexpr ElementwiseTraits kTraitsOf = {Functor::dtypes, Functor::to_float,
                                                Functor::predicate, Functor::mask_inputs};

/// What remains to be said of an elementwise op.
struct ElementwiseSpec {
  Required<const char*> signature;
  Required<const char*> doc;
  Required<Gradient> gradient;
  Saves saves;
  Required<Autocast> autocast;
  Required<SampleRule> samples;
  Required<ErrorRule> errors;
  NumberRule numbers = nullptr;
  ShortcutRule shortcut = nullptr;
  bool (*fractional)(const void* attrs) = nullptr;
};

template <class Functor>
OpDef elementwise(const ElementwiseSpec& spec) {
  return {.signature = spec.signature,
          .doc = spec.doc,
          .infer = infer_elementwise,
          .gradient = spec.gradient,
          .saves = spec.saves,
          .autocast = spec.autocast,
          .determinism = Determinism::deterministic,
          .random = RandomEffect::none,
          .aliasing = Aliasing::none(),
          .fusion = Fusion::elementwise,
          .samples = spec.samples,
          .errors = spec.errors,
          .elementwise = &kTraitsOf<Functor>,
          .numbers = spec.numbers,
          .shortcut = spec.shortcut,
          .fractional = spec.fractional};
}

/// The rule of ops that choose among values, where wrapped ones would come as a surprise.
void fitting_numbers(Scalar number, std::size_t input, DType dtype, const char* op);

/// Error samples of ops that need nothing beyond the common checks of their kind.
void unary_errors(ErrorSamples& errors);
void binary_errors(ErrorSamples& errors);
void ternary_errors(ErrorSamples& errors);

}  // namespace facula

#endif  // FACULA_KERNEL_TU
