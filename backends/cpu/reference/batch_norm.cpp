// Batch norm channel by channel in double, on contiguous copies.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <facula/ops.h>

#include "backends/cpu/registration.h"
#include "core/tensor_impl.h"
#include "ops/attrs/batch_norm_apply.h"
#include "ops/attrs/batch_norm_relu.h"
#include "ops/attrs/batch_norm_relu_backward.h"
#include "ops/attrs/batch_norm_stats.h"
#include "ops/attrs/batch_norm_train.h"
#include "ops/attrs/channel_affine_relu.h"

namespace facula::cpu {
namespace {

/// [N, C, ...] in double, whose channels can be gone through.
class Channels {
 public:
  explicit Channels(const Tensor& tensor)
      : values_(tensor.to(kFloat64).contiguous()),
        channels(tensor.size(1)),
        count(channels ? tensor.numel() / channels : 0),
        plane_(count ? count / tensor.size(0) : 1) {}

  /// Element i of channel c.
  double& at(std::int64_t c, std::int64_t i) const {
    return values_.impl()->typed<double>()[(i / plane_ * channels + c) * plane_ + i % plane_];
  }
  const Tensor& tensor() const { return values_; }

 private:
  Tensor values_;

 public:
  std::int64_t channels, count;

 private:
  std::int64_t plane_;
};

/// A tensor [C] in double, or a constant in its place.
class PerChannel {
 public:
  PerChannel(const KernelArgs& args, std::size_t i, double otherwise = 0)
      : values_(args.has(i) ? args.in(i).to(kFloat64).contiguous() : Tensor()),
        otherwise_(otherwise) {}
  double operator[](std::int64_t c) const {
    return values_.defined() ? values_.impl()->typed<double>()[c] : otherwise_;
  }

 private:
  Tensor values_;
  double otherwise_;
};

double& entry(const Tensor& tensor, std::int64_t i) { return tensor.impl()->typed<double>()[i]; }

/// min(max(value + residual, 0), cap) in place.
void add_and_rectify(const Channels& y, const KernelArgs& args, std::size_t residual,
                     std::optional<double> cap) {
  const double most = cap.value_or(std::numeric_limits<double>::infinity());
  const Channels added(args.has(residual) ? args.in(residual) : zeros(args.in(0).sizes()));
  for (std::int64_t c = 0; c < y.channels; ++c) {
    for (std::int64_t i = 0; i < y.count; ++i) {
      y.at(c, i) = std::min(std::max(y.at(c, i) + added.at(c, i), 0.), most);
    }
  }
}

struct Stats {
  Stats(const Channels& x, double eps)
      : mean(zeros({x.channels}, kFloat64)),
        inverse(zeros({x.channels}, kFloat64)),
        variance(zeros({x.channels}, kFloat64)) {
    const auto n = static_cast<double>(std::max<std::int64_t>(x.count, 1));
    for (std::int64_t c = 0; c < x.channels; ++c) {
      double sum = 0, squares = 0;
      for (std::int64_t i = 0; i < x.count; ++i) sum += x.at(c, i);
      for (std::int64_t i = 0; i < x.count; ++i) squares += std::pow(x.at(c, i) - sum / n, 2);
      entry(mean, c) = sum / n;
      entry(inverse, c) = 1 / std::sqrt(squares / n + eps);
      entry(variance, c) = squares / n;
    }
  }

  Tensor mean, inverse, variance;
};

/// out(0) = (x - mean) * inverse * weight + bias, with `relu` min(max(... + residual, 0), cap).
/// `weight`, `bias` and `residual` are numbers of inputs.
void apply(const KernelArgs& args, const Tensor& mean, const Tensor& inverse, std::size_t weight,
           std::size_t bias, std::size_t residual, bool relu, std::optional<double> cap) {
  const Channels x(args.in(0)), y(zeros(args.out().sizes(), kFloat64));
  const PerChannel weights(args, weight, 1), biases(args, bias);
  for (std::int64_t c = 0; c < x.channels; ++c) {
    for (std::int64_t i = 0; i < x.count; ++i) {
      y.at(c, i) = (x.at(c, i) - entry(mean, c)) * entry(inverse, c) * weights[c] + biases[c];
    }
  }
  if (relu) add_and_rectify(y, args, residual, cap);
  args.out(0).copy_(y.tensor());
}

void train(const KernelArgs& args, double eps, bool relu, std::optional<double> cap) {
  const Stats stats(Channels(args.in(0)), eps);
  apply(args, stats.mean, stats.inverse, 1, 2, 3, relu, cap);
  args.out(1).copy_(stats.mean);
  args.out(2).copy_(stats.inverse);
  if (args.output_count > 3) args.out(3).copy_(stats.variance);
}

void backward(const KernelArgs& args, const Channels& grad, const PerChannel& mean,
              const PerChannel& inverse) {
  const Channels x(args.in(1)), result(zeros(args.out().sizes(), kFloat64));
  const PerChannel weight(args, 2, 1);
  const Tensor grad_weight = zeros({x.channels}, kFloat64),
               grad_bias = zeros({x.channels}, kFloat64);
  const auto n = static_cast<double>(x.count);
  for (std::int64_t c = 0; c < x.channels; ++c) {
    auto normalized = [&](std::int64_t i) { return (x.at(c, i) - mean[c]) * inverse[c]; };
    double sum = 0, products = 0;
    for (std::int64_t i = 0; i < x.count; ++i) {
      sum += grad.at(c, i);
      products += grad.at(c, i) * normalized(i);
    }
    for (std::int64_t i = 0; i < x.count; ++i) {
      result.at(c, i) =
          weight[c] * inverse[c] * (grad.at(c, i) - sum / n - normalized(i) * products / n);
    }
    entry(grad_weight, c) = products;
    entry(grad_bias, c) = sum;
  }
  args.out(0).copy_(result.tensor());
  args.out(1).copy_(grad_weight);
  args.out(2).copy_(grad_bias);
}

void plain_backward(const KernelArgs& args) {
  backward(args, Channels(args.in(0)), PerChannel(args, 3), PerChannel(args, 4));
}

/// (grad, input, weight, bias, mean, invstd)
void relu_backward(const KernelArgs& args) {
  const Channels grad(args.in(0).to(kFloat64, false, true)), x(args.in(1));
  const PerChannel weight(args, 2, 1), bias(args, 3), mean(args, 4), inverse(args, 5);
  const std::optional<double> cap = args.attrs<ops::batch_norm_relu_backward_attrs>().cap;
  for (std::int64_t c = 0; c < x.channels; ++c) {
    for (std::int64_t i = 0; i < x.count; ++i) {
      const double before = (x.at(c, i) - mean[c]) * inverse[c] * weight[c] + bias[c];
      if (before <= 0 || (cap && before >= *cap)) grad.at(c, i) = 0;
    }
  }
  backward(args, grad, mean, inverse);
}

void affine(const KernelArgs& args, bool relu) {
  const Channels x(args.in(0)), y(zeros(args.out().sizes(), kFloat64));
  const PerChannel scale(args, 1), shift(args, 2);
  for (std::int64_t c = 0; c < x.channels; ++c) {
    for (std::int64_t i = 0; i < x.count; ++i) y.at(c, i) = x.at(c, i) * scale[c] + shift[c];
  }
  if (relu) add_and_rectify(y, args, 3, args.attrs<ops::channel_affine_relu_attrs>().cap);
  args.out().copy_(y.tensor());
}

}  // namespace

void register_batch_norm_reference() {
  add(OpId::batch_norm_train, {"reference", nullptr, [](const KernelArgs& args) {
                                 train(args, args.attrs<ops::batch_norm_train_attrs>().eps, false,
                                       {});
                               }});
  add(OpId::batch_norm_relu, {"reference", nullptr, [](const KernelArgs& args) {
                                const auto& a = args.attrs<ops::batch_norm_relu_attrs>();
                                train(args, a.eps, true, a.cap);
                              }});
  add(OpId::batch_norm_stats, {"reference", nullptr, [](const KernelArgs& args) {
                                 const Stats stats(Channels(args.in(0)),
                                                   args.attrs<ops::batch_norm_stats_attrs>().eps);
                                 args.out(0).copy_(stats.mean);
                                 args.out(1).copy_(stats.inverse);
                                 args.out(2).copy_(stats.variance);
                               }});
  add(OpId::batch_norm_apply, {"reference", nullptr, [](const KernelArgs& args) {
                                 const auto& a = args.attrs<ops::batch_norm_apply_attrs>();
                                 apply(args, args.in(1).to(kFloat64), args.in(2).to(kFloat64), 3, 4,
                                       5, a.relu, a.cap);
                               }});
  add(OpId::batch_norm_backward, {"reference", nullptr, plain_backward});
  add(OpId::batch_norm_relu_backward, {"reference", nullptr, relu_backward});
  add(OpId::channel_affine,
      {"reference", nullptr, [](const KernelArgs& args) { affine(args, false); }});
  add(OpId::channel_affine_relu,
      {"reference", nullptr, [](const KernelArgs& args) { affine(args, true); }});
}

}  // namespace facula::cpu
