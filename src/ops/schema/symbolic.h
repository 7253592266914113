// A scalar that records what is done to it instead of computing.
//
// Calling an op's functor with Symbolic arguments yields the op's expression, from which fused
// kernels are generated. It also keeps functors honest in every build: a comparison gives a
// SymbolicMask, which has no truth value, so that `if`, `?:`, `&&` and `||` do not compile, and
// plain numbers do not convert, so that constants must be written K<T>(c).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/schema/scalar.h"

namespace facula::scalar {

// Functions of the vocabulary by shape; operators, fma and select are written out below. What
// clang-format makes of the first list differs from what it makes of that.
// clang-format off
#define FACULA_SYMBOLIC_UNARY(X)                                                                   \
  X(abs) X(sign) X(floor) X(normal_cdf) X(normal_pdf) X(gelu) X(ceil) X(round) X(trunc) X(sqrt)    \
  X(rsqrt) X(exp) X(exp2) X(expm1) X(log) X(log1p) X(log2) X(log10) X(sin) X(cos) X(tan) X(atan)   \
  X(sinh) X(cosh) X(tanh) X(sigmoid) X(erf) X(erfc)
// clang-format on
#define FACULA_SYMBOLIC_BINARY(X) \
  X(min) X(max) X(pow) X(copysign) X(fmod) X(remainder) X(floor_divide)
#define FACULA_SYMBOLIC_TEST(X) X(isnan) X(isinf)
#define FACULA_SYMBOLIC_ARITHMETIC(X) X(add, +) X(subtract, -) X(multiply, *) X(divide, /)
#define FACULA_SYMBOLIC_COMPARISON(X) \
  X(less, <) X(less_equal, <=) X(greater, >) X(greater_equal, >=) X(equal, ==) X(not_equal, !=)
#define FACULA_SYMBOLIC_LOGIC(X) X(both, &) X(either, |)

enum class SymbolicOp : uint8_t {
  input,
  constant,
  negate,
  complement,  // of a mask
  fma,
  select,
#define FACULA_NAME(name, ...) name,
  FACULA_SYMBOLIC_UNARY(FACULA_NAME) FACULA_SYMBOLIC_BINARY(FACULA_NAME)
      FACULA_SYMBOLIC_TEST(FACULA_NAME) FACULA_SYMBOLIC_ARITHMETIC(FACULA_NAME)
          FACULA_SYMBOLIC_COMPARISON(FACULA_NAME) FACULA_SYMBOLIC_LOGIC(FACULA_NAME)
#undef FACULA_NAME
};

/// A node of the expression; immutable, shared by all that use it.
struct SymbolicNode {
  SymbolicOp op;
  double value = 0;  ///< of a constant; the index of an input
  std::array<std::shared_ptr<const SymbolicNode>, 3> args = {};
};
using SymbolicNodePtr = std::shared_ptr<const SymbolicNode>;

/// A number. Inputs are called x0, x1, ...
class Symbolic {
 public:
  explicit Symbolic(double constant);
  explicit Symbolic(SymbolicNodePtr node) : node_(std::move(node)) {}
  static Symbolic input(int index);
  const SymbolicNodePtr& node() const { return node_; }

 private:
  SymbolicNodePtr node_;
};

/// The outcome of a comparison, good only for select, & | and !.
class SymbolicMask {
 public:
  explicit SymbolicMask(SymbolicNodePtr node) : node_(std::move(node)) {}
  static SymbolicMask input(int index);
  explicit operator bool() const = delete;
  const SymbolicNodePtr& node() const { return node_; }

 private:
  SymbolicNodePtr node_;
};

/// The result of `op` on the nodes of `args`.
template <class Result, class... Args>
Result record(SymbolicOp op, const Args&... args) {
  return Result(std::make_shared<const SymbolicNode>(SymbolicNode{op, 0, {args.node()...}}));
}

inline Symbolic operator-(const Symbolic& a) { return record<Symbolic>(SymbolicOp::negate, a); }
inline SymbolicMask operator!(const SymbolicMask& a) {
  return record<SymbolicMask>(SymbolicOp::complement, a);
}
inline Symbolic fma(const Symbolic& a, const Symbolic& b, const Symbolic& c) {
  return record<Symbolic>(SymbolicOp::fma, a, b, c);
}
inline Symbolic select(const SymbolicMask& mask, const Symbolic& a, const Symbolic& b) {
  return record<Symbolic>(SymbolicOp::select, mask, a, b);
}
inline SymbolicMask select(const SymbolicMask& mask, const SymbolicMask& a, const SymbolicMask& b) {
  return record<SymbolicMask>(SymbolicOp::select, mask, a, b);
}

#define FACULA_UNARY(name) \
  inline Symbolic name(const Symbolic& a) { return record<Symbolic>(SymbolicOp::name, a); }
#define FACULA_BINARY(name)                                    \
  inline Symbolic name(const Symbolic& a, const Symbolic& b) { \
    return record<Symbolic>(SymbolicOp::name, a, b);           \
  }
#define FACULA_TEST(name) \
  inline SymbolicMask name(const Symbolic& a) { return record<SymbolicMask>(SymbolicOp::name, a); }
#define FACULA_OPERATOR(Result, Argument, name, symbol)                 \
  inline Result operator symbol(const Argument& a, const Argument& b) { \
    return record<Result>(SymbolicOp::name, a, b);                      \
  }
#define FACULA_ARITHMETIC(name, symbol) FACULA_OPERATOR(Symbolic, Symbolic, name, symbol)
#define FACULA_COMPARISON(name, symbol) FACULA_OPERATOR(SymbolicMask, Symbolic, name, symbol)
#define FACULA_LOGIC(name, symbol) FACULA_OPERATOR(SymbolicMask, SymbolicMask, name, symbol)
FACULA_SYMBOLIC_UNARY(FACULA_UNARY)
FACULA_SYMBOLIC_BINARY(FACULA_BINARY)
FACULA_SYMBOLIC_TEST(FACULA_TEST)
FACULA_SYMBOLIC_ARITHMETIC(FACULA_ARITHMETIC)
FACULA_SYMBOLIC_COMPARISON(FACULA_COMPARISON)
FACULA_SYMBOLIC_LOGIC(FACULA_LOGIC)
#undef FACULA_UNARY
#undef FACULA_BINARY
#undef FACULA_TEST
#undef FACULA_OPERATOR
#undef FACULA_ARITHMETIC
#undef FACULA_COMPARISON
#undef FACULA_LOGIC

/// An expression as a list of instructions, arguments first, without duplicates: equal
/// subexpressions are computed once, however they were built.
class SymbolicProgram {
 public:
  struct Instruction {
    SymbolicOp op;
    double value;             ///< of a constant; the index of an input
    std::array<int, 3> args;  ///< earlier instructions; -1 beyond the arity
  };

  explicit SymbolicProgram(const Symbolic& result) : SymbolicProgram(result.node()) {}
  explicit SymbolicProgram(const SymbolicMask& result) : SymbolicProgram(result.node()) {}

  std::span<const Instruction> instructions() const { return instructions_; }
  /// One more than the highest index of an input.
  int input_count() const;

  /// The result for the inputs x0, x1, ...; masks are 0 and 1. Throws ShapeError if there are fewer
  /// inputs than the program uses.
  double evaluate(std::span<const double> inputs) const;

  /// Statements of the vocabulary in terms of x0, x1, ... and the scalar type T, ending in
  /// `return`; what is used more than once has a name. Constants are printed so that they read back
  /// exactly.
  std::string source() const;

 private:
  explicit SymbolicProgram(const SymbolicNodePtr& result);

  std::vector<Instruction> instructions_;  // the last one is the result
};

}  // namespace facula::scalar
