#include <facula/call.h>

#include "tests/support/expect.h"

namespace facula {
namespace {

TEST(Call, TakesNumbersWhereTheFunctionsDo) {
  const Tensor x = tensor({1.0, 2, 3});
  expect_equal(call("add", {x, 2})[0], add(x, 2));
  expect_equal(call("sub", {2, x})[0], sub(2, x));
  expect_equal(call("pow", {x, 0.5})[0], pow(x, 0.5));
  expect_equal(call("lt", {x}, {{"other", 2}})[0], lt(x, 2));
  expect_equal(call("where", {x > 1, x, 7})[0], where(x > 1, x, 7));
  expect_equal(call("logical_and", {x, false})[0], logical_and(x, false));
  EXPECT_ERROR(ValueError, "add: argument other is an int, expected a tensor", call("add", {1, 2}));
  EXPECT_ERROR(ValueError, "add: argument other is a string, expected a tensor",
               call("add", {x, "2"}));
  EXPECT_ERROR(ValueError, "mm: argument mat2 is an int, expected a tensor",
               call("mm", {x.reshape({1, 3}), 2}));
}

TEST(Call, RefusesArgumentsThatDoNotFitTheSignature) {
  const Tensor x = ones({2});
  EXPECT_ERROR(ValueError, "softplus: argument beta is given 2 times",
               call("softplus", {x}, {{"beta", 1}, {"beta", 2}}));
  EXPECT_ERROR(ValueError, "softplus: argument self is given twice",
               call("softplus", {x}, {{"self", x}}));
  EXPECT_ERROR(ValueError, "softplus: no argument is called gamma",
               call("softplus", {x}, {{"gamma", 1}}));
  EXPECT_ERROR(ValueError, "softplus: argument self is missing", call("softplus", {}));
  EXPECT_ERROR(ValueError, "dropout: argument generator is an int, expected None",
               call("dropout", {x, 0.5, true, 3}));
  EXPECT_ERROR(ValueError, "there is no op or in-place variant called \"softplush\"",
               call("softplush", {x}));
  EXPECT_ERROR(ValueError, "in-place variant called \"flip_\"", call("flip_", {x}));
}

}  // namespace
}  // namespace facula
