#include "ops/schema/loss.h"

#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"

namespace facula {

void check_loss(const Tensor& input, const Tensor& target, std::string_view reduction,
                const char* op) {
  check_defined(op, input, target);
  check<ShapeError>(input.sizes() == target.sizes(),
                    "{}: target of size {} for an input of size {}; make them equal", op,
                    target.sizes(), input.sizes());
  check<ValueError>(reduction == "mean" || reduction == "sum" || reduction == "none",
                    "{}: unknown reduction \"{}\"; use mean, sum or none", op, reduction);
  check_not_empty(input, target, reduction, op);
}

void check_not_empty(const Tensor& input, const Tensor& target, std::string_view reduction,
                     const char* op) {
  check<ShapeError>(reduction != "mean" || target.numel() > 0,
                    "{}: an input of size {} with a target of size {} has no mean; leave out empty "
                    "batches, or use reduction sum",
                    op, input.sizes(), target.sizes());
}

namespace {

constexpr PairLoss kPairLosses[] = {
    {"squared_error", OpId::squared_error,
     [](const Tensor& self, const Tensor& target, double) { return squared_error(self, target); },
     [](GradientContext& g, const Tensor& grad, double) {
       set_difference_gradient(g, squared_error_backward(g.input(0), g.input(1), grad));
     }},
    {"absolute_error", OpId::absolute_error,
     [](const Tensor& self, const Tensor& target, double) { return absolute_error(self, target); },
     [](GradientContext& g, const Tensor& grad, double) {
       set_difference_gradient(g, absolute_error_backward(g.input(0), g.input(1), grad));
     }},
    {"huber_error", OpId::huber_error,
     [](const Tensor& self, const Tensor& target, double delta) {
       return huber_error(self, target, delta);
     },
     [](GradientContext& g, const Tensor& grad, double delta) {
       set_difference_gradient(g, huber_error_backward(g.input(0), g.input(1), grad, delta));
     }},
    {"logit_cross_entropy", OpId::logit_cross_entropy,
     [](const Tensor& self, const Tensor& target, double) {
       return logit_cross_entropy(self, target);
     },
     [](GradientContext& g, const Tensor& grad, double) {
       if (g.needs(0)) g.set(0, logit_cross_entropy_backward(g.input(0), g.input(1), grad));
       if (g.needs(1)) g.set(1, neg(g.input(0) * grad));
     }},
};

}  // namespace

const PairLoss& pair_loss_named(std::string_view name) {
  for (const PairLoss& loss : kPairLosses) {
    if (loss.name == name) return loss;
  }
  fail<ValueError>("pair_loss: unknown loss \"{}\"", name);
}

void set_difference_gradient(GradientContext& g, const Tensor& grad) {
  if (g.needs(0)) g.set(0, grad);
  if (g.needs(1)) g.set(1, neg(grad));
}

Tensor reduce_pairs(const Tensor& self, const Tensor& target, std::string_view loss,
                    std::string_view reduction, const char* op, double parameter) {
  check_loss(self, target, reduction, op);
  return in_call(op, {&self, &target}, [&] {
    if (reduction == "none" || self.dtype() != target.dtype() || !self.is_floating_point()) {
      return reduce_loss(pair_loss_named(loss).terms(self, target, parameter), reduction);
    }
    return pair_loss(self, target, loss, reduction, parameter);
  });
}

Tensor reduce_loss(const Tensor& losses, std::string_view reduction) {
  if (reduction == "none") return losses;
  return reduction == "sum" ? sum(losses) : mean(losses);
}

}  // namespace facula
