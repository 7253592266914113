// What the text of an expression is made of, compiled: every name, operators within operators,
// constants.
#include "tests/ops/symbolic_text.h"

namespace facula::scalar {
namespace {

using test::Texts;

class SymbolicText : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::emitted_source() && !test::emitted_library()) {
      GTEST_SKIP() << "FACULA_EMITTED_SOURCE, the file to write, is not set";
    }
  }
};

TEST_F(SymbolicText, EveryFunction) {
  const Symbolic x = Symbolic::input(0), y = Symbolic::input(1), z = Symbolic::input(2);
  Texts texts("function");
#define FACULA_UNARY(name) texts.expect(SymbolicProgram(name(x)), {{false}});
#define FACULA_BINARY(name) texts.expect(SymbolicProgram(name(x, y)), {{false, false}});
#define FACULA_TEST(name) texts.expect(SymbolicProgram(name(x)), {{false}, true});
  FACULA_SYMBOLIC_UNARY(FACULA_UNARY)
  FACULA_SYMBOLIC_BINARY(FACULA_BINARY)
  FACULA_SYMBOLIC_TEST(FACULA_TEST)
#undef FACULA_UNARY
#undef FACULA_BINARY
#undef FACULA_TEST
  const SymbolicMask mask = SymbolicMask::input(0);
  texts.expect(SymbolicProgram(fma(x, y, z)), {{false, false, false}});
  texts.expect(SymbolicProgram(select(mask, y, z)), {{true, false, false}});
  texts.expect(SymbolicProgram(select(mask, SymbolicMask::input(1), SymbolicMask::input(2))),
               {{true, true, true}, true});
}

using Arithmetic = Symbolic (*)(const Symbolic&, const Symbolic&);
using Comparison = SymbolicMask (*)(const Symbolic&, const Symbolic&);
using Logic = SymbolicMask (*)(const SymbolicMask&, const SymbolicMask&);
#define FACULA_OPERATOR(name, symbol) [](const auto& a, const auto& b) { return a symbol b; },
constexpr Arithmetic kArithmetic[] = {FACULA_SYMBOLIC_ARITHMETIC(FACULA_OPERATOR)};
constexpr Comparison kComparisons[] = {FACULA_SYMBOLIC_COMPARISON(FACULA_OPERATOR)};
constexpr Logic kLogic[] = {FACULA_SYMBOLIC_LOGIC(FACULA_OPERATOR)};
#undef FACULA_OPERATOR

TEST_F(SymbolicText, OperatorsWithinOperators) {
  const Symbolic x = Symbolic::input(0), y = Symbolic::input(1), z = Symbolic::input(2);
  const SymbolicMask a = SymbolicMask::input(0), b = SymbolicMask::input(1),
                     c = SymbolicMask::input(2);
  const test::Kinds numbers{{false, false, false}}, predicate{{false, false, false}, true},
      masks{{true, true, true}, true};
  Texts texts("nested");
  for (const Arithmetic inner : kArithmetic) {
    texts.expect(SymbolicProgram(-inner(-x, -(-y))), numbers);
    for (const Arithmetic outer : kArithmetic) {
      texts.expect(SymbolicProgram(outer(inner(x, y), z)), numbers);
      texts.expect(SymbolicProgram(outer(x, inner(y, z))), numbers);
    }
    for (const Comparison outer : kComparisons) {
      texts.expect(SymbolicProgram(outer(inner(x, y), z)), predicate);
      texts.expect(SymbolicProgram(outer(x, inner(y, z))), predicate);
    }
  }
  for (const Logic outer : kLogic) {
    for (const Comparison inner : kComparisons) {
      texts.expect(SymbolicProgram(outer(inner(x, y), !inner(y, z))), predicate);
    }
    for (const Logic inner : kLogic) {
      texts.expect(SymbolicProgram(outer(inner(a, b), c)), masks);
      texts.expect(SymbolicProgram(outer(a, inner(b, c))), masks);
      texts.expect(SymbolicProgram(!outer(!a, !inner(b, c))), masks);
    }
  }
  const Symbolic sum = x + y;  // recurs, hence has a name
  texts.expect(SymbolicProgram((sum - sum * z) / (sum * z)), numbers);
}

TEST_F(SymbolicText, Constants) {
  Texts texts("constant");
  for (const double value :
       {0.1, 1.0 / 3, -2.0 / 3, 3.141592653589793, 1e22, 123456789.0, 5e-324,
        std::numeric_limits<double>::min(), std::numeric_limits<double>::max(),
        std::numeric_limits<double>::epsilon(), 20.0, 0.0, -0.0, -1.0, 0x1p63, 0x1p64, -0x1p70}) {
    texts.expect(SymbolicProgram(K<Symbolic>(value)), {});
    texts.expect(SymbolicProgram(Symbolic::input(0) - K<Symbolic>(value)), {{false}});
  }
  texts.expect(SymbolicProgram(-infinity<Symbolic>()), {});
  texts.expect(SymbolicProgram(K<Symbolic>(-INFINITY) - Symbolic::input(0)), {{false}});
  texts.expect(SymbolicProgram(quiet_nan<Symbolic>()), {});
}

TEST_F(SymbolicText, DifferencesAreTold) {
  const Symbolic x = Symbolic::input(0), y = Symbolic::input(1);
  Texts texts("difference");
  texts.expect(SymbolicProgram(x - y), {{false, false}});
  if (!test::emitted_library()) return;
  const auto equal = [](const Symbolic& other, const test::Points& points) {
    return bool(test::agree("difference_0", SymbolicProgram(other), points));
  };
  EXPECT_TRUE(equal(x - y, {{2, 3}, {NAN, 1}}));
  EXPECT_FALSE(equal(x + y, {{2, 3}}));
  EXPECT_FALSE(equal(y - x, {{2, 2}, {0, -0.0}}));
  EXPECT_FALSE(equal(x - y * K<Symbolic>(1 + 0x1p-52), {{0, 1}}));
  EXPECT_FALSE(test::agree("difference_1", SymbolicProgram(x), {}));
}

}  // namespace
}  // namespace facula::scalar
