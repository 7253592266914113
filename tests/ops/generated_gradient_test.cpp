// Tests of every op's gradient, made from its definition.
#include "tests/ops/every_op.h"
#include "tests/support/problems.h"

namespace facula::test {
namespace {

class EveryGradient : public OpTest {};

/// The op as a function of the sample's floating tensors.
auto as_function(const ops::DynamicOp& op, const Sample& sample) {
  return [&op, sample](const std::vector<Tensor>& points) {
    std::size_t next = 0;
    return run(op, mapped(sample, [&](const Tensor& t) {
                 return kFloatingTypes.contains(t.dtype()) ? points.at(next++) : t;
               }));
  };
}

std::vector<Tensor> points_of(const Sample& sample) {
  std::vector<Tensor> points;
  for (const Tensor& t : tensors_of(sample)) {
    if (kFloatingTypes.contains(t.dtype()))
      points.push_back(t.to(kFloat64, false, true).requires_grad_());
  }
  return points;
}

TEST_P(EveryGradient, AgreesWithCentralDifferences) {
  FACULA_NOTHING_FOR_TSAN();  // samples are too small to be shared out
  for_each_sample([&](const Sample& sample) {
    const Sample wide = mapped(sample, to_dtype(kFloat64));
    if (!is_differentiable(op(), wide)) return;
    EXPECT_EQ(autograd::gradcheck(as_function(op(), wide), points_of(wide), {.second_order = true}),
              "");
  });
}

TEST_P(EveryGradient, IsTheSameIfOnlyOneInputNeedsIt) {
  for_each_sample([&](const Sample& sample) {
    if (!is_differentiable(op(), sample)) return;
    const Outcome all = run_with_gradients(op(), sample);
    for (std::size_t i = 0; i < all.leaves.size(); ++i) {
      std::vector<Tensor> points;
      for (const Tensor& t : all.leaves) points.push_back(t.detach());
      points[i].requires_grad_();
      std::vector<Tensor> outputs, seeds;
      for (const Tensor& result : as_function(op(), sample)(points)) {
        if (!result.requires_grad()) continue;
        outputs.push_back(result);
        seeds.push_back(seed_gradient(result));
      }
      if (outputs.empty()) {
        EXPECT_FALSE(all.gradients[i].defined()) << "input " << i;
        continue;
      }
      const Tensor gradient =
          autograd::grad(outputs, {points[i]}, {.grad_outputs = seeds, .allow_unused = true})[0];
      ASSERT_EQ(gradient.defined(), all.gradients[i].defined()) << "input " << i;
      if (gradient.defined()) expect_equal(gradient, all.gradients[i]);
    }
  });
}

FACULA_FOR_EVERY_OP(EveryGradient);

}  // namespace
}  // namespace facula::test
