// Batch norm channel by channel in double, on contiguous copies.
#include <cmath>

#include <facula/ops.h>

#include "backends/cpu/registration.h"
#include "core/tensor_impl.h"
#include "ops/attrs/batch_norm_train.h"

namespace facula::cpu {
namespace {

/// [N, C, ...] in double, whose channels can be gone through.
class Channels {
 public:
  explicit Channels(const Tensor& tensor)
      : values_(tensor.to(kFloat64).contiguous()),
        channels(tensor.size(1)),
        count(channels ? tensor.numel() / channels : 0),
        plane_(tensor.size(0) ? count / tensor.size(0) : 0) {}

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

void train(const KernelArgs& args) {
  const double eps = args.attrs<ops::batch_norm_train_attrs>().eps;
  const Channels x(args.in(0)), y(zeros(args.out().sizes(), kFloat64));
  const PerChannel weight(args, 1, 1), bias(args, 2);
  const Tensor means = zeros({x.channels}, kFloat64), inverses = zeros({x.channels}, kFloat64);
  const auto n = static_cast<double>(x.count);
  for (std::int64_t c = 0; c < x.channels; ++c) {
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < x.count; ++i) sum += x.at(c, i);
    const double mean = sum / n;
    for (std::int64_t i = 0; i < x.count; ++i) squares += std::pow(x.at(c, i) - mean, 2);
    const double inverse = 1 / std::sqrt(squares / n + eps);
    for (std::int64_t i = 0; i < x.count; ++i) {
      y.at(c, i) = (x.at(c, i) - mean) * inverse * weight[c] + bias[c];
    }
    entry(means, c) = mean;
    entry(inverses, c) = inverse;
  }
  args.out(0).copy_(y.tensor());
  args.out(1).copy_(means);
  args.out(2).copy_(inverses);
}

void backward(const KernelArgs& args) {
  const Channels grad(args.in(0)), x(args.in(1)), result(zeros(args.out().sizes(), kFloat64));
  const PerChannel weight(args, 2, 1), mean(args, 3), inverse(args, 4);
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

void affine(const KernelArgs& args) {
  const Channels x(args.in(0)), y(zeros(args.out().sizes(), kFloat64));
  const PerChannel scale(args, 1), shift(args, 2);
  for (std::int64_t c = 0; c < x.channels; ++c) {
    for (std::int64_t i = 0; i < x.count; ++i) y.at(c, i) = x.at(c, i) * scale[c] + shift[c];
  }
  args.out().copy_(y.tensor());
}

}  // namespace

void register_batch_norm_reference() {
  add(OpId::batch_norm_train, {"reference", nullptr, train});
  add(OpId::batch_norm_backward, {"reference", nullptr, backward});
  add(OpId::channel_affine, {"reference", nullptr, affine});
}

}  // namespace facula::cpu
