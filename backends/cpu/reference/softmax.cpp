// Softmax, cross-entropy and nll_loss as their formulas stand, in double on contiguous copies.
#include <cmath>
#include <limits>
#include <string_view>

#include <facula/ops.h>

#include "backends/cpu/registration.h"
#include "core/tensor_impl.h"
#include "ops/attrs/cross_entropy_loss.h"
#include "ops/attrs/cross_entropy_loss_backward.h"
#include "ops/attrs/log_softmax.h"
#include "ops/attrs/log_softmax_backward.h"
#include "ops/attrs/nll_loss.h"
#include "ops/attrs/nll_loss_backward.h"
#include "ops/attrs/softmax.h"
#include "ops/attrs/softmax_backward.h"
#include "ops/schema/cross_entropy.h"

namespace facula::cpu {
namespace {

/// log(exp(x_i) / sum of all exp(x_k)) for n elements `step` apart.
void log_softmax_line(const double* x, double* y, std::int64_t n, std::int64_t step) {
  double greatest = x[0], sum = 0;
  for (std::int64_t i = 0; i < n; ++i) greatest = std::fmax(greatest, x[i * step]);
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x[i * step] - greatest);
  for (std::int64_t i = 0; i < n; ++i) y[i * step] = x[i * step] - greatest - std::log(sum);
}

/// Calls line(place of its first element, how many, step) for each line of a contiguous tensor.
template <class Line>
void for_each_line(const Tensor& x, int dim, Line line) {
  const std::int64_t n = x.dim() == 0 ? 1 : x.size(dim);
  std::int64_t step = 1;
  for (int d = dim + 1; d < x.dim(); ++d) step *= x.size(d);
  for (std::int64_t i = 0; n > 0 && i < x.numel() / n; ++i) {
    line(i / step * step * n + i % step, n, step);
  }
}

Tensor log_softmax_of(const Tensor& self, int dim) {
  const Tensor x = self.to(kFloat64).contiguous();
  Tensor y = empty(self.sizes(), kFloat64);
  for_each_line(x, dim, [&](std::int64_t first, std::int64_t n, std::int64_t step) {
    log_softmax_line(x.impl()->typed<double>() + first, y.impl()->typed<double>() + first, n, step);
  });
  return y;
}

void log_softmax(const KernelArgs& args) {
  const std::int64_t dim = args.attrs<ops::log_softmax_attrs>().dim;
  args.out().copy_(log_softmax_of(args.in(0), wrap_dim(dim, args.in(0).dim(), "log_softmax")));
}

void softmax(const KernelArgs& args) {
  const std::int64_t dim = args.attrs<ops::softmax_attrs>().dim;
  const Tensor y = log_softmax_of(args.in(0), wrap_dim(dim, args.in(0).dim(), "softmax"));
  double* values = y.impl()->typed<double>();
  for (std::int64_t i = 0; i < y.numel(); ++i) values[i] = std::exp(values[i]);
  args.out().copy_(y);
}

/// Calls line(grad, output, result, how many, step) for each line.
template <class Line>
void backward(const KernelArgs& args, std::int64_t dim, Line line) {
  const Tensor grad = args.in(0).to(kFloat64).contiguous();
  const Tensor output = args.in(1).to(kFloat64).contiguous();
  const Tensor result = empty(grad.sizes(), kFloat64);
  const int d = wrap_dim(dim, grad.dim(), args.call.op.name);
  for_each_line(grad, d, [&](std::int64_t first, std::int64_t n, std::int64_t step) {
    line(grad.impl()->typed<double>() + first, output.impl()->typed<double>() + first,
         result.impl()->typed<double>() + first, n, step);
  });
  args.out().copy_(result);
}

void softmax_backward(const KernelArgs& args) {
  backward(args, args.attrs<ops::softmax_backward_attrs>().dim,
           [](const double* g, const double* y, double* out, std::int64_t n, std::int64_t step) {
             double sum = 0;
             for (std::int64_t i = 0; i < n; ++i) sum += g[i * step] * y[i * step];
             for (std::int64_t i = 0; i < n; ++i) out[i * step] = y[i * step] * (g[i * step] - sum);
           });
}

void log_softmax_backward(const KernelArgs& args) {
  backward(args, args.attrs<ops::log_softmax_backward_attrs>().dim,
           [](const double* g, const double* y, double* out, std::int64_t n, std::int64_t step) {
             double sum = 0;
             for (std::int64_t i = 0; i < n; ++i) sum += g[i * step];
             for (std::int64_t i = 0; i < n; ++i) {
               out[i * step] = g[i * step] - std::exp(y[i * step]) * sum;
             }
           });
}

/// What -log p of each class counts in a row's loss, and the sum of the weights of all labels.
struct Shares {
  Tensor values;  // [N, C]
  double total = 0;

  template <class Attrs>
  Shares(const Attrs& attrs, const Tensor& target, const Tensor& weight, std::int64_t classes,
         const char* op)
      : values(zeros({target.numel(), classes}, kFloat64)) {
    const Tensor labels = target.contiguous();
    const Tensor weights = weight.defined() ? weight.to(kFloat64).contiguous() : Tensor();
    auto weight_of = [&](std::int64_t c) {
      return weights.defined() ? weights.impl()->typed<double>()[c] : 1.0;
    };
    double smoothing = 0;
    if constexpr (requires { attrs.label_smoothing; }) smoothing = attrs.label_smoothing;
    const double each = smoothing / static_cast<double>(classes);
    for (std::int64_t i = 0; i < labels.numel(); ++i) {
      const std::int64_t label = labels.impl()->typed<std::int64_t>()[i];
      if (label == attrs.ignore_index) continue;
      check_label(label, i, classes, op);
      double* row = values.impl()->typed<double>() + i * classes;
      for (std::int64_t c = 0; c < classes; ++c) row[c] = each * weight_of(c);
      row[label] += (1 - smoothing) * weight_of(label);
      total += weight_of(label);
    }
  }
};

/// The loss of rows of log-probabilities.
void reduce(const Tensor& log_probs, const Shares& shares, std::string_view reduction,
            const Tensor& out) {
  const std::int64_t rows = log_probs.size(0), classes = log_probs.size(1);
  const Tensor losses = zeros({rows}, kFloat64);
  double sum = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    double& loss = losses.impl()->typed<double>()[i];
    for (std::int64_t c = 0; c < classes; ++c) {
      const double share = shares.values.impl()->typed<double>()[i * classes + c];
      if (share != 0) loss -= share * log_probs.impl()->typed<double>()[i * classes + c];
    }
    sum += loss;
  }
  if (reduction == "none") {
    out.copy_(losses.reshape(out.sizes()));
  } else {
    out.fill_(reduction == "mean" ? sum / shares.total : sum);
  }
}

void cross_entropy(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::cross_entropy_loss_attrs>();
  const Tensor log_probs = log_softmax_of(args.in(0), 1);
  const Shares shares(attrs, args.in(1), args.in(2), log_probs.size(1), "cross_entropy");
  reduce(log_probs, shares, attrs.reduction, args.out(0));
  args.out(1).copy_(log_probs);
}

void nll_loss(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::nll_loss_attrs>();
  const Tensor log_probs = rows_of_classes(args.in(0).to(kFloat64)).contiguous();
  const Shares shares(attrs, args.in(1), args.in(2), log_probs.size(1), "nll_loss");
  reduce(log_probs, shares, attrs.reduction, args.out());
}

/// The gradient with respect to rows of logits, or, where log_probs are -infinity, of
/// log-probabilities.
Tensor gradient_of(const Tensor& given, const Tensor& log_probs, const Shares& shares,
                   std::string_view reduction) {
  const std::int64_t rows = log_probs.size(0), classes = log_probs.size(1);
  const Tensor grad = given.to(kFloat64).contiguous();
  const Tensor result = empty({rows, classes}, kFloat64);
  for (std::int64_t i = 0; i < rows; ++i) {
    const double* share = shares.values.impl()->typed<double>() + i * classes;
    const double* row = log_probs.impl()->typed<double>() + i * classes;
    const double divisor = reduction == "mean" ? shares.total : 1;
    const double scale = grad.impl()->typed<double>()[reduction == "none" ? i : 0] / divisor;
    double sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) sum += share[c];
    for (std::int64_t c = 0; c < classes; ++c) {
      result.impl()->typed<double>()[i * classes + c] =
          sum == 0 ? 0 : scale * (std::exp(row[c]) * sum - share[c]);
    }
  }
  return result;
}

void cross_entropy_backward(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::cross_entropy_loss_backward_attrs>();
  const Tensor log_probs = args.in(1).to(kFloat64).contiguous();
  const Shares shares(attrs, args.in(2), args.in(3), log_probs.size(1), "cross_entropy");
  args.out().copy_(gradient_of(args.in(0), log_probs, shares, attrs.reduction));
}

void nll_loss_backward(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::nll_loss_backward_attrs>();
  const Tensor &self = args.in(1), &target = args.in(2);
  const std::int64_t classes = self.size(self.dim() == 1 ? 0 : 1);
  const Shares shares(attrs, target, args.in(3), classes, "nll_loss");
  const Tensor nowhere =
      full({target.numel(), classes}, -std::numeric_limits<double>::infinity(), kFloat64);
  Dims sizes(target.sizes());
  sizes.push_back(classes);
  const Tensor rows = gradient_of(args.in(0), nowhere, shares, attrs.reduction).reshape(sizes);
  args.out().copy_(self.dim() == 1 ? rows : movedim(rows, -1, 1));
}

}  // namespace

void register_softmax_reference() {
  add(OpId::softmax, {"reference", nullptr, softmax});
  add(OpId::log_softmax, {"reference", nullptr, log_softmax});
  add(OpId::softmax_backward, {"reference", nullptr, softmax_backward});
  add(OpId::log_softmax_backward, {"reference", nullptr, log_softmax_backward});
  add(OpId::cross_entropy_loss, {"reference", nullptr, cross_entropy});
  add(OpId::cross_entropy_loss_backward, {"reference", nullptr, cross_entropy_backward});
  add(OpId::nll_loss, {"reference", nullptr, nll_loss});
  add(OpId::nll_loss_backward, {"reference", nullptr, nll_loss_backward});
}

}  // namespace facula::cpu
