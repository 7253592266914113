// nll_loss picks scores where they lie; its gradient writes rows and planes, in and past the
// caches.
#include <facula/autograd.h>
#include <facula/generator.h>
#include <facula/ops.h>
#include <gtest/gtest.h>

#include "backends/cpu/streaming.h"
#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

/// Scores of 30 classes at 256 positions a sample, or at one, that the caches have no room for.
Tensor many_scores(bool planes) {
  const std::int64_t elements = cpu::most_cached_bytes() / 4 + 1;
  return planes ? randn({elements / (30 * 1003) + 1, 30, 17, 59})
                : randn({elements / 997 + 1, 997});
}

TEST(NllLoss, GradientsAreThoseOfPickedElements) {
  manual_seed(2);
  for (const Tensor& x : {randn({300, 7}), randn({3, 5, 40, 41}), many_scores(false),
                          many_scores(true), many_scores(true).contiguous(kChannelsLast)}) {
    Dims sizes(x.sizes());
    const std::int64_t classes = sizes[1];
    sizes.erase(1);
    const Tensor labels = randint(0, classes, sizes), counted = labels != 1;
    const Tensor weight = rand({classes}) + 0.5, factors = index_select(weight, 0, flatten(labels));
    const Tensor scale = where(counted, factors.reshape(sizes), 0);
    const Tensor total = sum(scale.to(kFloat64)).to(kFloat32);
    for (const char* reduction : {"mean", "sum", "none"}) {
      const Tensor own = x.detach().requires_grad_();
      const Tensor loss = nll_loss(own, labels, weight, reduction, 1);
      const bool none = reduction == std::string("none");
      const Tensor grad = none ? rand(sizes) + 0.5 : tensor(2.0, kFloat32);
      loss.backward(grad);
      const Tensor each = neg(scale * grad) / (reduction == std::string("mean") ? total : ones({}));
      const Tensor picked = gather(own.grad(), 1, unsqueeze(labels, 1)).squeeze(1);
      expect_close(picked, each, 1e-6, reduction);
      // Nothing but these.
      EXPECT_EQ(sum(own.grad() != 0).item<std::int64_t>(), sum(counted).item<std::int64_t>());
      EXPECT_EQ(own.grad().strides(), x.strides());
      if (none) {
        const Tensor scores = gather(x, 1, unsqueeze(labels, 1)).squeeze(1);
        EXPECT_TRUE(equal(loss, neg(scores * scale)));
      }
    }
  }
}

}  // namespace
}  // namespace facula
