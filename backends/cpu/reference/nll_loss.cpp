// Negative log-likelihood as its formula stands, in double, and its gradient.
#include <facula/ops.h>

#include "backends/cpu/registration.h"
#include "ops/attrs/nll_loss.h"
#include "ops/attrs/nll_loss_backward.h"
#include "ops/schema/cross_entropy.h"

namespace facula::cpu {
namespace {

/// What -log p of every class counts in the sum of the losses, by rows, and with "mean" that of all
/// weights.
struct Shares {
  Tensor values;  // [M, C]
  double total = 0;

  template <class Attrs>
  Shares(const Attrs& attrs, const Tensor& target, const Tensor& weight, std::int64_t classes)
      : values(zeros({target.numel(), classes}, kFloat64)) {
    const std::vector<std::int64_t> labels = target.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] == attrs.ignore_index) continue;
      const auto row = static_cast<std::int64_t>(i);
      check_label(labels[i], row, classes, "nll_loss");
      const double own = weight.defined() ? weight[labels[i]].item() : 1;
      values[row][labels[i]].fill_(own);
      total += own;
    }
    if (attrs.reduction != "mean") total = 1;
  }
};

void nll_loss(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::nll_loss_attrs>();
  const Tensor rows = rows_of_classes(args.in(0).to(kFloat64));
  const Shares shares(attrs, args.in(1), args.in(2), rows.size(1));
  const Tensor losses = neg(sum(where(shares.values == 0, 0, rows * shares.values), {1}));
  args.out().copy_(attrs.reduction == "none" ? reshape(losses, args.in(1).sizes())
                                             : sum(losses) / shares.total);
}

void nll_loss_backward(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::nll_loss_backward_attrs>();
  const Tensor& self = args.in(1);
  const std::int64_t classes = self.size(self.dim() == 1 ? 0 : 1);
  const Shares shares(attrs, args.in(2), args.in(3), classes);
  const Tensor grad = args.in(0).to(kFloat64);
  const Tensor rows = neg(shares.values * reshape(grad, {-1, 1})) / shares.total;
  if (self.dim() == 1) {
    args.out().copy_(reshape(rows, {classes}));
    return;
  }
  Dims sizes(args.in(2).sizes());
  sizes.push_back(classes);
  args.out().copy_(movedim(reshape(rows, sizes), -1, 1));
}

}  // namespace

void register_nll_loss_reference() {
  add(OpId::nll_loss, {"reference", nullptr, nll_loss});
  add(OpId::nll_loss_backward, {"reference", nullptr, nll_loss_backward});
}

}  // namespace facula::cpu
