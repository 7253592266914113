// The expressions of functors, which compile only if the functors are free of branches. To be
// included before them: they name functions of the vocabulary that arguments do not lead to.
#pragma once

#include <type_traits>
#include <utility>

#include "ops/schema/symbolic.h"

namespace facula::test {

using scalar::Symbolic;
using scalar::SymbolicMask;
using scalar::SymbolicProgram;

/// `Functor` with the attributes of its op, as kernels make it.
template <class Functor, class Attrs>
Functor with_attributes([[maybe_unused]] const Attrs& attrs) {
  if constexpr (std::is_base_of_v<Attrs, Functor>) {
    return Functor{{}, attrs};
  } else {
    return Functor{};
  }
}

template <class Functor, int I>
auto symbolic_input() {
  return std::conditional_t<(I < Functor::mask_inputs), SymbolicMask, Symbolic>::input(I);
}

/// An elementwise op in terms of its tensor arguments x0, x1, ...
template <class Functor, class Attrs>
SymbolicProgram program_of(const Attrs& attrs) {
  const auto functor = with_attributes<Functor>(attrs);
  return [&]<int... I>(std::integer_sequence<int, I...>) {
    return SymbolicProgram(functor(symbolic_input<Functor, I>()...));
  }
  (std::make_integer_sequence<int, Attrs::tensor_arguments>{});
}

struct ReductionPrograms {
  SymbolicProgram add;      ///< x0: the total, x1: an element
  SymbolicProgram combine;  ///< of two totals
  SymbolicProgram finish;   ///< x0: the total of `count` elements
};

template <class Functor>
ReductionPrograms programs_of(double count) {
  using A = typename Functor::template Accumulator<Symbolic>;
  using Result = std::conditional_t<Functor::predicate, SymbolicMask, Symbolic>;
  const Functor f{};
  return {SymbolicProgram(f.add(A::input(0), Symbolic::input(1))),
          SymbolicProgram(f.combine(A::input(0), A::input(1))),
          SymbolicProgram(f.template finish<Result>(A::input(0), count))};
}

}  // namespace facula::test
