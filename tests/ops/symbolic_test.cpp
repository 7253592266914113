#include "ops/schema/symbolic.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include <facula/error.h>

namespace facula::scalar {
namespace {

// Functors as op files have them.
struct SoftplusFn {
  double beta, threshold;
  template <class T>
  FACULA_FN T operator()(T x) const {
    T bx = x * K<T>(beta);
    T soft = log1p(exp(min(bx, K<T>(threshold)))) / K<T>(beta);
    return select(bx > K<T>(threshold), x, soft);
  }
};
struct EveryFunctionFn {
  template <class T>
  FACULA_FN T operator()(T x, T y) const {
    T a = abs(x) + K<T>(0.25), s = sign(y) * copysign(a, y);
    T rounded = floor(x) + ceil(y) - round(x * y) / (trunc(a) + K<T>(1));
    T roots = sqrt(a) * rsqrt(a + K<T>(1));
    T exponentials = exp(-a) + exp2(x) + expm1(y) + sigmoid(x);
    T logarithms = log(a) + log1p(a) + log2(a) + log10(a);
    T circles = sin(x) + cos(y) + tan(x) + atan(y) + sinh(x) + cosh(y) + tanh(x * y);
    T errors = erf(x) - erfc(y) + normal_cdf(x) * normal_pdf(y) + gelu(x);
    T pairs = min(x, y) + max(x, K<T>(0.5)) + pow(a, y) + fma(x, y, a);
    T divisions = fmod(x, a) + remainder(y, a) + floor_divide(x, a);
    auto unusual = isnan(x) | isinf(y) | !((x <= y) & (x != y)) | (x == y);
    T sum = s + rounded + roots + exponentials + logarithms + circles + errors + pairs + divisions;
    return select((x >= y) & unusual, sum, select((x < y) | (x > y), -sum, infinity<T>()));
  }
};
struct RepetitiveFn {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return exp(x * K<T>(2)) + sin(exp(x * K<T>(2)));
  }
};

std::string source_of(const Symbolic& s) { return SymbolicProgram(s).source(); }

TEST(Symbolic, PrintsTheExpressionWithNamesForWhatRecurs) {
  EXPECT_EQ(source_of(SoftplusFn{2, 20}(Symbolic::input(0))),
            "const auto t0 = x0 * K<T>(2);\n"
            "return select((t0 > K<T>(20)), x0, "
            "(log1p(exp(min(t0, K<T>(20)))) / K<T>(2)));\n");
}

TEST(Symbolic, EqualSubexpressionsAreComputedOnce) {
  EXPECT_EQ(source_of(RepetitiveFn{}(Symbolic::input(0))),
            "const auto t0 = exp((x0 * K<T>(2)));\n"
            "return t0 + sin(t0);\n");
}

TEST(Symbolic, SharingKeepsLargeExpressionsSmall) {
  Symbolic x = Symbolic::input(0);
  for (int i = 0; i < 60; ++i) x = x + x;  // a tree of 2^60 leaves
  const SymbolicProgram program(x);
  EXPECT_EQ(program.instructions().size(), 61u);
  EXPECT_EQ(program.evaluate({{1.0}}), 0x1p60);
}

TEST(Symbolic, EvaluatesLikeTheFunctorOnDouble) {
  const SymbolicProgram program(EveryFunctionFn{}(Symbolic::input(0), Symbolic::input(1)));
  const double values[] = {-2.5, -1, -0.0, 0, 0.75, 1, 3.25, std::nan(""), INFINITY, -INFINITY};
  for (const double x : values) {
    for (const double y : values) {
      const double want = EveryFunctionFn{}(x, y), got = program.evaluate({{x, y}});
      EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want)))
          << x << ", " << y << ": " << got << ", not " << want;
    }
  }
}

TEST(Symbolic, ConstantsKeepFullPrecision) {
  EXPECT_EQ(source_of(K<Symbolic>(0.1)), "return K<T>(0.1);\n");
  EXPECT_EQ(source_of(K<Symbolic>(1.0 / 3)), "return K<T>(0.3333333333333333);\n");
  EXPECT_EQ(source_of(-infinity<Symbolic>()), "return -(infinity<T>());\n");
  EXPECT_EQ(source_of(quiet_nan<Symbolic>()), "return quiet_nan<T>();\n");
}

TEST(Symbolic, ZerosOfBothSignsAreDifferentConstants) {
  const SymbolicProgram program(Symbolic(1) / Symbolic(-0.0) + Symbolic(1) / Symbolic(0));
  EXPECT_TRUE(std::isnan(program.evaluate({})));
}

TEST(Symbolic, MasksAreInputsAndResults) {
  const Symbolic x = Symbolic::input(1);
  const SymbolicProgram choice(select(SymbolicMask::input(0), x, -x));
  EXPECT_EQ(choice.input_count(), 2);
  EXPECT_EQ(choice.evaluate({{1, 3}}), 3);
  EXPECT_EQ(choice.evaluate({{0, 3}}), -3);
  EXPECT_EQ(SymbolicProgram(x > Symbolic(2)).source(), "return x1 > K<T>(2);\n");
  EXPECT_EQ(SymbolicProgram(x > Symbolic(2)).evaluate({{0, 3}}), 1);
}

TEST(Symbolic, MissingInputsAreReported) {
  const SymbolicProgram program(Symbolic::input(0) + Symbolic::input(2));
  EXPECT_THROW(program.evaluate({{1, 2}}), ShapeError);
}

// What keeps op files branch-free.
template <class M>
concept Branches = requires(M mask) {
  mask ? 1 : 0;
};
template <class M>
concept ShortCircuits = requires(M mask) {
  mask&& mask;
};
template <class T>
concept TakesPlainNumbers = requires(T x) {
  x * 2.0;
};
static_assert(Branches<bool> && ShortCircuits<bool> && TakesPlainNumbers<float>);
static_assert(!Branches<SymbolicMask> && !ShortCircuits<SymbolicMask>);
static_assert(!Branches<Symbolic> && !TakesPlainNumbers<Symbolic>);

}  // namespace
}  // namespace facula::scalar
