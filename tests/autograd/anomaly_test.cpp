#include <facula/autograd.h>

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
  EXPECT_ERROR(AutogradError, "in module net.head", y.backward());
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
  const Tensor y = (x / x).sum();
  autograd::AnomalyMode anomaly;
  EXPECT_ERROR(AutogradError, "run the forward pass under AnomalyMode", y.backward());
}

TEST(AnomalyMode, LeavesSoundGradientsAlone) {
  autograd::AnomalyMode anomaly;
  const Tensor x = leaf({1, 2});
  (x * x).sum().backward();
  expect_values(x.grad(), {2, 4});
}

}  // namespace
}  // namespace facula
