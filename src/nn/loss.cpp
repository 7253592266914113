#include <facula/nn/loss.h>

#include <facula/nn/functional.h>

#include "base/check.h"

namespace facula::nn {

Loss::Loss(std::string reduction, const Place& place)
    : Module(place), reduction_(std::move(reduction)) {
  check<ValueError>(reduction_ == "mean" || reduction_ == "sum" || reduction_ == "none",
                    "loss: option reduction is \"{}\"; use \"mean\", \"sum\" or \"none\"",
                    reduction_);
}

CrossEntropyLoss::CrossEntropyLoss(CrossEntropyLossOptions options, Place place)
    : Loss(std::move(options.reduction), place),
      weight(*this, "weight", std::move(options.weight)),
      ignore_index_(options.ignore_index),
      label_smoothing_(options.label_smoothing) {
  check<ValueError>(label_smoothing_ >= 0 && label_smoothing_ <= 1,
                    "CrossEntropyLoss: option label_smoothing is {}, must lie in [0, 1]",
                    label_smoothing_);
}

Tensor CrossEntropyLoss::forward(const Tensor& input, const Tensor& target) const {
  return functional::cross_entropy(input, target, weight, reduction(), ignore_index_,
                                   label_smoothing_);
}

NLLLoss::NLLLoss(NLLLossOptions options, Place place)
    : Loss(std::move(options.reduction), place),
      weight(*this, "weight", std::move(options.weight)),
      ignore_index_(options.ignore_index) {}

Tensor NLLLoss::forward(const Tensor& input, const Tensor& target) const {
  return functional::nll_loss(input, target, weight, reduction(), ignore_index_);
}

MSELoss::MSELoss(LossOptions options, Place place) : Loss(std::move(options.reduction), place) {}

Tensor MSELoss::forward(const Tensor& input, const Tensor& target) const {
  return functional::mse_loss(input, target, reduction());
}

L1Loss::L1Loss(LossOptions options, Place place) : Loss(std::move(options.reduction), place) {}

Tensor L1Loss::forward(const Tensor& input, const Tensor& target) const {
  return functional::l1_loss(input, target, reduction());
}

SmoothL1Loss::SmoothL1Loss(SmoothL1LossOptions options, Place place)
    : Loss(std::move(options.reduction), place), beta_(options.beta) {
  check<ValueError>(beta_ >= 0, "SmoothL1Loss: option beta is {}, must not be negative", beta_);
}

Tensor SmoothL1Loss::forward(const Tensor& input, const Tensor& target) const {
  return functional::smooth_l1_loss(input, target, reduction(), beta_);
}

HuberLoss::HuberLoss(HuberLossOptions options, Place place)
    : Loss(std::move(options.reduction), place), delta_(options.delta) {
  check<ValueError>(delta_ > 0, "HuberLoss: option delta is {}, must be positive", delta_);
}

Tensor HuberLoss::forward(const Tensor& input, const Tensor& target) const {
  return functional::huber_loss(input, target, reduction(), delta_);
}

BCEWithLogitsLoss::BCEWithLogitsLoss(BCEWithLogitsLossOptions options, Place place)
    : Loss(std::move(options.reduction), place),
      weight(*this, "weight", std::move(options.weight)),
      pos_weight(*this, "pos_weight", std::move(options.pos_weight)) {}

Tensor BCEWithLogitsLoss::forward(const Tensor& input, const Tensor& target) const {
  return functional::binary_cross_entropy_with_logits(input, target, weight, pos_weight,
                                                      reduction());
}

}  // namespace facula::nn
