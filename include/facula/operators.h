// Operators on tensors and numbers.
#pragma once

#include <utility>

#include <facula/ops.h>

namespace facula {

// A dead temporary's memory may hold the result.
#define FACULA_BINARY_OPERATOR(symbol, function)                                                   \
  inline Tensor operator symbol(const Tensor& a, const Tensor& b) { return function(a, b); }       \
  inline Tensor operator symbol(Tensor&& a, const Tensor& b) { return function(std::move(a), b); } \
  inline Tensor operator symbol(const Tensor& a, Scalar b) { return function(a, b); }              \
  inline Tensor operator symbol(Tensor&& a, Scalar b) { return function(std::move(a), b); }        \
  inline Tensor operator symbol(Scalar a, const Tensor& b) { return function(a, b); }              \
  inline Tensor operator symbol(Scalar a, Tensor&& b) { return function(a, std::move(b)); }

FACULA_BINARY_OPERATOR(+, add)
FACULA_BINARY_OPERATOR(-, sub)
FACULA_BINARY_OPERATOR(*, mul)
FACULA_BINARY_OPERATOR(/, div)
#undef FACULA_BINARY_OPERATOR

// Results are bool: no operand's memory could hold them.
#define FACULA_COMPARISON_OPERATOR(symbol, function)                                         \
  inline Tensor operator symbol(const Tensor& a, const Tensor& b) { return function(a, b); } \
  inline Tensor operator symbol(const Tensor& a, Scalar b) { return function(a, b); }        \
  inline Tensor operator symbol(Scalar a, const Tensor& b) { return function(a, b); }

FACULA_COMPARISON_OPERATOR(<, lt)
FACULA_COMPARISON_OPERATOR(<=, le)
FACULA_COMPARISON_OPERATOR(>, gt)
FACULA_COMPARISON_OPERATOR(>=, ge)
FACULA_COMPARISON_OPERATOR(==, eq)
FACULA_COMPARISON_OPERATOR(!=, ne)
#undef FACULA_COMPARISON_OPERATOR

inline Tensor operator-(const Tensor& a) { return neg(a); }
inline Tensor operator-(Tensor&& a) { return neg(std::move(a)); }

/// Of masks, element by element: (x > 0) & (x < 1). Throw DTypeError unless all operands are bool.
FACULA_API Tensor operator&(const Tensor& a, const Tensor& b);
FACULA_API Tensor operator|(const Tensor& a, const Tensor& b);
FACULA_API Tensor operator^(const Tensor& a, const Tensor& b);
FACULA_API Tensor operator~(const Tensor& a);

#define FACULA_COMPOUND_ASSIGNMENT(symbol, method)                                               \
  inline const Tensor& operator symbol(const Tensor& a, const Tensor& b) { return a.method(b); } \
  inline const Tensor& operator symbol(const Tensor& a, Scalar b) { return a.method(b); }

FACULA_COMPOUND_ASSIGNMENT(+=, add_)
FACULA_COMPOUND_ASSIGNMENT(-=, sub_)
FACULA_COMPOUND_ASSIGNMENT(*=, mul_)
FACULA_COMPOUND_ASSIGNMENT(/=, div_)
#undef FACULA_COMPOUND_ASSIGNMENT

}  // namespace facula
