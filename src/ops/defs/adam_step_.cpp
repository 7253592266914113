#include "ops/attrs/adam_step_.h"

#include <facula/ops.h>

#include "ops/schema/multi_tensor.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const auto& attrs = c.attrs<adam_step__attrs>();
  check_parameter_lists(
      c,
      {{1, "grads"}, {2, "exp_avgs"}, {3, "exp_avg_sqs"}, {4, "max_exp_avg_sqs", attrs.amsgrad}});
  std::size_t position = 0;
  for (int argument = 0; argument < 5; ++argument) position += c.list(argument).size();
  for (const char* name : {"lr", "beta1", "step"}) check_step_scalar(c, position++, name);
}

Tensor number(double value) { return tensor(value, kFloat64); }

}  // namespace

OpDef define_adam_step_() {
  return {
      .signature =
          "adam_step_(Tensor[] params, Tensor[] grads, Tensor[] exp_avgs, "
          "Tensor[] exp_avg_sqs, Tensor[] max_exp_avg_sqs, Tensor lr, Tensor beta1, "
          "Tensor step, float beta2=0.999, float eps=1e-8, float weight_decay=0, "
          "bool decoupled=False, bool amsgrad=False, bool maximize=False) -> ()",
      .doc =
          "One step of Adam (Kingma & Ba, 2015) on all params, with the arithmetic of "
          "torch.optim.Adam: g = grad (negated if maximize) + weight_decay * param; m = beta1 * m "
          "+ (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g^2; param -= lr / (1 - beta1^step) * "
          "m / (sqrt(v / (1 - beta2^step)) + eps). If amsgrad, the largest v so far takes v's "
          "place. If decoupled (AdamW, Loshchilov & Hutter 2019), param *= 1 - lr * weight_decay "
          "replaces the addition to g. step counts from 1. Subnormal numbers count as 0 unless eps "
          "* sqrt(1 - beta2) is below 2e-12, where v matters.  params, grads, exp_avgs, "
          "exp_avg_sqs, max_exp_avg_sqs (may be empty without amsgrad): lists of equal shapes, "
          "floating, lr, beta1, step: [] float64 -> none.",
      .infer = infer,
      .gradient = not_differentiable("an optimizer's step changes leaves in place"),
      .saves = kSavesNothing,
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::writes(0b11101),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            using Tensors = std::vector<Tensor>;
            auto list = [&] { return Tensors{s.normal({3, 5}), s.normal({}), s.normal({40})}; };
            auto squares = [&] {
              return Tensors{s.uniform({3, 5}, 0.1, 2), s.uniform({}, 0.1, 2),
                             s.uniform({40}, 0.1, 2)};
            };
            s.add({list(), list(), list(), squares(), Tensors{}, number(0.1), number(0.9),
                   number(1)});
            s.add({list(), list(), list(), squares(), Tensors{}, number(0.1), number(0.8),
                   number(7), 0.99, 1e-6, 0.01, false, false, true});
            s.add({list(), list(), list(), squares(), Tensors{}, number(0.1), number(0.9),
                   number(3), 0.999, 1e-8, 0.01, true});
            s.add({list(), list(), list(), squares(), squares(), number(0.1), number(0.9),
                   number(3), 0.999, 1e-8, 0.01, true, true});
            const Tensors nothing{s.normal({0})};
            s.add({nothing, nothing, nothing, nothing, Tensors{}, number(0.1), number(0.9),
                   number(1)});
          },
      .errors =
          [](ErrorSamples& e) {
            using Tensors = std::vector<Tensor>;
            const Tensors list{e.normal({3, 5})}, other{e.normal({3})};
            e.fails({list, list, Tensors{}, list, Tensors{}, number(0.1), number(0.9), number(1)},
                    "exp_avgs has 0 tensors for 1 parameters");
            e.fails({list, list, list, other, Tensors{}, number(0.1), number(0.9), number(1)},
                    "they must agree");
            e.fails({list, list, list, list, Tensors{}, number(0.1), number(0.9), e.normal({})},
                    "step must be a 0-d float64");
            e.fails({list, list, list, list, Tensors{}, number(0.1), number(0.9), number(1), 0.999,
                     1e-8, 0., false, true},
                    "max_exp_avg_sqs has 0 tensors for 1 parameters");
          },
  };
}

}  // namespace facula::ops
