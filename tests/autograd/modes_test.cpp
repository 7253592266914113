#include <facula/autograd.h>

#include <optional>

#include "runtime/mode.h"
#include "tests/support/expect.h"

namespace facula {
namespace {

TEST(NoGradGuard, RecordsNothing) {
  const Tensor x = leaf({1});
  {
    NoGradGuard no_grad;
    EXPECT_FALSE(AutoGradMode::is_enabled());
    EXPECT_FALSE((x * 2).requires_grad());
    {
      AutoGradMode again(true);
      EXPECT_TRUE((x * 2).requires_grad());
    }
    EXPECT_FALSE((x * 2).requires_grad());
  }
  EXPECT_TRUE((x * 2).requires_grad());
  {
    AutoGradMode off(false);
    EXPECT_FALSE((x * 2).requires_grad());
  }
  EXPECT_TRUE(AutoGradMode::is_enabled());
}

TEST(NoGradGuard, LeavesMayBeChangedInside) {
  const Tensor x = leaf({1, 2});
  {
    NoGradGuard no_grad;
    x.add_(1);
  }
  EXPECT_TRUE(x.requires_grad());
  EXPECT_TRUE(x.is_leaf());
  expect_values(x, {2, 3});
  (x * x).sum().backward();
  expect_values(x.grad(), {4, 6});
}

TEST(Modes, OfDifferentKindsEndInAnyOrder) {
  const Tensor x = leaf({1});
  x.sum();  // the first call sets what FACULA_VERBOSE asks for
  const std::uint32_t before = runtime::tl_mode;
  std::optional<NoGradGuard> no_grad(std::in_place);
  std::optional<autograd::AnomalyMode> anomaly(std::in_place);
  no_grad.reset();
  EXPECT_TRUE((x * 2).requires_grad());
  EXPECT_TRUE(runtime::tl_mode & runtime::kAnomaly);
  anomaly.reset();
  EXPECT_EQ(runtime::tl_mode, before);

  anomaly.emplace();
  std::optional<AutoGradMode> off(std::in_place, false);
  anomaly.reset();
  EXPECT_FALSE((x * 2).requires_grad());
  off.reset();
  EXPECT_EQ(runtime::tl_mode, before);

  std::optional<runtime::ModeGuard> reference(std::in_place, runtime::kReference);
  std::optional<InferenceMode> inference(std::in_place);
  reference.reset();
  EXPECT_FALSE((x * 2).requires_grad());
  EXPECT_FALSE(runtime::tl_mode & runtime::kReference);
  inference.reset();
  EXPECT_EQ(runtime::tl_mode, before);
}

TEST(InferenceMode, ResultsStayOutsideOfGraphs) {
  const Tensor x = leaf({1, 2});
  Tensor made, computed;
  {
    InferenceMode inference;
    AutoGradMode ignored(true);
    made = ones({2});
    computed = x * 2;
    EXPECT_FALSE(computed.requires_grad());
  }
  EXPECT_ERROR(AutogradError, "InferenceMode", made.requires_grad_());
  EXPECT_ERROR(AutogradError, "InferenceMode", x * computed);
  EXPECT_ERROR(AutogradError, "InferenceMode", x * made);
  // Where backward does not need their values they may be used.
  (x + computed).sum().backward();
  expect_values(x.grad(), {1, 1});
}

TEST(InferenceMode, ViewsAreWhatTheirTensorsAre) {
  const Tensor x = leaf({1, 2}), outside = tensor({3.0, 4});
  Tensor part, of_made;
  {
    InferenceMode inference;
    part = outside[1];
    of_made = ones({2})[1];
  }
  (x * part).sum().backward();
  expect_values(x.grad(), {4, 4});
  EXPECT_ERROR(AutogradError, "InferenceMode", x * of_made);
}

}  // namespace
}  // namespace facula
