#include "base/function_ref.h"

#include <gtest/gtest.h>

#include <memory>

namespace facula {
namespace {

static_assert(sizeof(FunctionRef<void(int)>) == 16);
static_assert(!std::is_constructible_v<FunctionRef<int(int)>, std::string (&)(int)>);

int twice(int x) { return 2 * x; }

int apply(FunctionRef<int(int)> f, int x) { return f(x); }

TEST(FunctionRef, CallsLambdasFunctionsAndFunctors) {
  int offset = 3;
  EXPECT_EQ(apply([&](int x) { return x + offset; }, 4), 7);
  EXPECT_EQ(apply(twice, 4), 8);
  EXPECT_EQ(apply(&twice, 4), 8);
  struct Square {
    int operator()(int x) const { return x * x; }
  };
  const Square square;
  EXPECT_EQ(apply(square, 5), 25);
}

TEST(FunctionRef, RefersToTheCallableItself) {
  int calls = 0;
  auto count = [calls](int) mutable { return ++calls; };
  FunctionRef<int(int)> ref = count;
  FunctionRef<int(int)> copy = ref;
  ref(0);
  copy(0);
  EXPECT_EQ(count(0), 3);
}

TEST(FunctionRef, PassesReferencesAndMoveOnlyArguments) {
  auto steal = [](std::unique_ptr<int> p, int& out) { out = *p; };
  FunctionRef<void(std::unique_ptr<int>, int&)> ref = steal;
  int out = 0;
  ref(std::make_unique<int>(9), out);
  EXPECT_EQ(out, 9);
}

TEST(FunctionRef, VoidSignatureDropsResults) {
  int seen = 0;
  auto f = [&](int x) { return seen = x; };
  FunctionRef<void(int)> ref = f;
  ref(6);
  EXPECT_EQ(seen, 6);
}

}  // namespace
}  // namespace facula
