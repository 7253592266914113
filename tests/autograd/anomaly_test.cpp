#include <facula/autograd.h>

#include <algorithm>
#include <string>

#include "runtime/module_path.h"
#include "tests/support/expect.h"

namespace facula {
namespace {

TEST(AnomalyMode, NamesOpModuleAndBacktrace) {
  autograd::AnomalyMode anomaly;
  const Tensor x = leaf({1, 0});
  Tensor y;
  {
    const std::string net = "net", head = "head";
    const runtime::ModulePathScope outer(net), inner(head);
    y = (x.log() * 0).sum();  // the gradient of log is 0 * inf at 0
  }
  try {
    y.backward();
    FAIL() << "nothing was thrown";
  } catch (const AutogradError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("backward of log returned a NaN gradient for input 0"), std::string::npos);
    const std::size_t origin = text.find("forward call of log in module net.head:\n");
    ASSERT_NE(origin, std::string::npos) << text;
    // Frames of this program, without a line for each of which the origin would be useless.
    EXPECT_NE(text.find("test_autograd", origin), std::string::npos) << text;
    EXPECT_GT(std::count(text.begin() + static_cast<std::ptrdiff_t>(origin), text.end(), '\n'), 5);
  }
}

TEST(AnomalyMode, FindsTheFirstOpToBlame) {
  const Tensor x = leaf({0});
  {
    autograd::AnomalyMode anomaly;
    const Tensor y = (x / x).sum();
    EXPECT_ERROR(AutogradError, "anomaly: backward of div returned a NaN gradient for input 1",
                 y.backward());
  }
  (x / x).sum().backward();  // outside, NaN is an ordinary value
}

TEST(AnomalyMode, SaysHowToFindTheOrigin) {
  const Tensor x = leaf({0});
  const Tensor y = (x / x).sum(), watched = x / x, z = watched.sum();
  autograd::register_hook(watched, [](const Tensor&) { return Tensor(); });
  const autograd::AnomalyMode anomaly;
  EXPECT_ERROR(AutogradError, "run the forward pass under AnomalyMode", y.backward());
  EXPECT_ERROR(AutogradError, "run the forward pass under AnomalyMode", z.backward());
}

TEST(AnomalyMode, HasNothingToLookAtOnTheNullDevice) {
  const autograd::AnomalyMode anomaly;
  const Tensor x = empty({2}, kNull).requires_grad_();
  (x * x).sum().backward();
  EXPECT_EQ(x.grad().sizes(), IntList({2}));
}

TEST(AnomalyMode, LeavesSoundGradientsAlone) {
  autograd::AnomalyMode anomaly;
  const Tensor x = leaf({1, 2});
  (x * x).sum().backward();
  expect_values(x.grad(), {2, 4});
}

}  // namespace
}  // namespace facula
