#include <facula/ops.h>

#include "ops/schema/multi_tensor.h"

namespace facula::ops {
namespace {

/// Position of the first tensor after the lists.
std::size_t scalars_begin(const Infer& c) {
  return c.list(0).size() + c.list(1).size() + c.list(2).size();
}

void infer(Infer& c) {
  check_parameter_lists(c, {{1, "grads"}, {2, "momentum_buffers", false}});
  check_step_scalar(c, scalars_begin(c), "lr");
  check_step_scalar(c, scalars_begin(c) + 1, "momentum");
}

Tensor number(double value) { return tensor(value, kFloat64); }

}  // namespace

OpDef define_sgd_step_() {
  return {
      .signature =
          "sgd_step_(Tensor[] params, Tensor[] grads, Tensor[] momentum_buffers, "
          "Tensor lr, Tensor momentum, float dampening=0, float weight_decay=0, "
          "bool nesterov=False, bool maximize=False, bool first=False) -> ()",
      .doc =
          "One step of stochastic gradient descent on all params, with the arithmetic of "
          "torch.optim.SGD: d = grad (negated if maximize) + weight_decay * param; with "
          "momentum_buffers, buffer = momentum * buffer + (1 - dampening) * d (d itself if first) "
          "and d = buffer, or d + momentum * buffer if nesterov; param -= lr * d. An empty list of "
          "buffers means no momentum. Subnormal numbers count as 0.  params, grads, "
          "momentum_buffers: lists of equal shapes, floating, lr, momentum: [] float64 -> none.",
      .infer = infer,
      .gradient = not_differentiable("an optimizer's step changes leaves in place"),
      .saves = kSavesNothing,
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::writes(0b101),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            using Tensors = std::vector<Tensor>;
            auto list = [&] { return Tensors{s.normal({3, 5}), s.normal({}), s.normal({40})}; };
            s.add({list(), list(), Tensors{}, number(0.1), number(0.)});
            s.add({list(), list(), list(), number(0.1), number(0.9)});
            s.add({list(), list(), list(), number(0.1), number(0.9), 0.5, 0.01, false, true});
            s.add({list(), list(), list(), number(0.1), number(0.9), 0., 0.01, true});
            s.add({list(), list(), list(), number(0.1), number(0.9), 0.5, 0., false, false, true});
            s.add({Tensors{s.normal({0})}, Tensors{s.normal({0})}, Tensors{}, number(0.1),
                   number(0.)});
          },
      .errors =
          [](ErrorSamples& e) {
            using Tensors = std::vector<Tensor>;
            const Tensors list{e.normal({3, 5})};
            e.fails({list, Tensors{}, Tensors{}, number(0.1), number(0.)},
                    "grads has 0 tensors for 1 parameters");
            e.fails({list, Tensors{e.normal({5, 3})}, Tensors{}, number(0.1), number(0.)},
                    "they must agree");
            e.fails({list, list, Tensors{}, e.normal({1}), number(0.)}, "lr must be a 0-d float64");
            e.fails({Tensors{e.integers({2}, 0, 3)}, list, Tensors{}, number(0.1), number(0.)},
                    "only float32 and float64 are trained");
          },
  };
}

}  // namespace facula::ops
