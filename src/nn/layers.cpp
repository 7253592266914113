#include <facula/nn/layers.h>

#include <cmath>

#include <facula/autograd.h>
#include <facula/nn/functional.h>
#include <facula/nn/init.h>

#include "base/check.h"

namespace facula::nn {
namespace {

void check_positive(std::int64_t value, const char* layer, const char* option) {
  check<ValueError>(value > 0, "{}: option {} is {}, must be positive", layer, option, value);
}

void check_positive(Size2d value, const char* layer, const char* option) {
  check_positive(value.height(), layer, option);
  check_positive(value.width(), layer, option);
}

void check_not_negative(Size2d value, const char* layer, const char* option) {
  check<ValueError>(value.height() >= 0 && value.width() >= 0,
                    "{}: option {} is ({}, {}), must not be negative", layer, option,
                    value.height(), value.width());
}

/// More padding would make windows of padding alone.
void check_pool_padding(Size2d padding, Size2d kernel, const char* layer) {
  check_not_negative(padding, layer, "padding");
  check<ValueError>(
      padding.height() <= kernel.height() / 2 && padding.width() <= kernel.width() / 2,
      "{}: option padding is ({}, {}), must be at most half of kernel ({}, {})", layer,
      padding.height(), padding.width(), kernel.height(), kernel.width());
}

/// PyTorch's default: weights as kaiming_uniform_(a = sqrt(5)), which is uniform within
/// +-1/sqrt(fan_in), and the bias within the same bounds.
void reset_affine(const Tensor& weight, const Tensor& bias) {
  init::kaiming_uniform_(weight, {.a = std::sqrt(5.0)});
  if (!bias.defined()) return;
  const auto fan_in = static_cast<double>(init::calculate_fan_in_and_fan_out(weight).in);
  const double bound = 1 / std::sqrt(fan_in);
  init::uniform_(bias, -bound, bound);
}

const LinearOptions& checked(const LinearOptions& options) {
  check_positive(options.in, "Linear", "in");
  check_positive(options.out, "Linear", "out");
  return options;
}

const Conv2dOptions& checked(const Conv2dOptions& options) {
  check_positive(options.in, "Conv2d", "in");
  check_positive(options.out, "Conv2d", "out");
  check_positive(options.kernel, "Conv2d", "kernel");
  check_positive(options.stride, "Conv2d", "stride");
  check_positive(options.dilation, "Conv2d", "dilation");
  check_positive(options.groups, "Conv2d", "groups");
  check_not_negative(options.padding, "Conv2d", "padding");
  check<ValueError>(options.in % options.groups == 0 && options.out % options.groups == 0,
                    "Conv2d: groups = {} must divide in = {} and out = {}", options.groups,
                    options.in, options.out);
  return options;
}

const BatchNormOptions& checked(const BatchNormOptions& options) {
  check_positive(options.features, "BatchNorm", "features");
  check<ValueError>(options.eps > 0 && std::isfinite(options.eps),
                    "BatchNorm: option eps is {}, must be positive", options.eps);
  check<ValueError>(!options.momentum || (*options.momentum >= 0 && *options.momentum <= 1),
                    "BatchNorm: option momentum is {}, must lie in [0, 1]",
                    options.momentum.value_or(0));
  return options;
}

/// Before anything changes. The op does not know of the layer's options, and it takes batches of no
/// elements, which would count as seen without leaving a trace in the statistics.
void check_batch(const BatchNorm& norm, const Tensor& input) {
  const std::int64_t features = norm.options.features, channels = input.size(1);
  if (channels != features) {
    fail<ShapeError>(
        "{}: an input of size {} has {} channels, option features is {}; construct the layer with "
        "features = {}, or give it an input of {} channels",
        norm.type_name(), input.sizes(), channels, features, channels, features);
  }
  if (norm.is_training() && input.numel() == 0) {
    fail<ValueError>(
        "{}: an input of size {} has no elements to train on; leave out empty batches, or call "
        "eval() first",
        norm.type_name(), input.sizes());
  }
}

/// A tensor, or an undefined one where the option is off.
Tensor zeros_if(bool wanted, IntList sizes) { return wanted ? zeros(sizes) : Tensor(); }
Tensor ones_if(bool wanted, IntList sizes) { return wanted ? ones(sizes) : Tensor(); }

}  // namespace

// --- Linear, convolution -------------------------------------------------------------------------

Linear::Linear(LinearOptions wanted, Place place)
    : Module(place),
      options(checked(wanted)),
      weight(*this, "weight", empty({options.out, options.in})),
      bias(*this, "bias", zeros_if(options.bias, {options.out})) {
  reset_parameters();
}

void Linear::reset_parameters() { reset_affine(weight, bias); }

Tensor Linear::forward(const Tensor& input) const {
  return functional::linear(input, weight, bias);
}

Conv2d::Conv2d(Conv2dOptions wanted, Place place)
    : Module(place),
      options(checked(wanted)),
      weight(*this, "weight",
             empty({options.out, options.in / options.groups, options.kernel.height(),
                    options.kernel.width()})),
      bias(*this, "bias", zeros_if(options.bias, {options.out})) {
  reset_parameters();
}

void Conv2d::reset_parameters() { reset_affine(weight, bias); }

Tensor Conv2d::forward(const Tensor& input) const {
  return functional::conv2d(input, weight, bias, options.stride, options.padding, options.dilation,
                            options.groups);
}

// --- Batch norm ----------------------------------------------------------------------------------

BatchNorm::BatchNorm(const BatchNormOptions& wanted, const Place& place)
    : Module(place),
      options(checked(wanted)),
      weight(*this, "weight", ones_if(options.affine, {options.features})),
      bias(*this, "bias", zeros_if(options.affine, {options.features})),
      running_mean(*this, "running_mean",
                   zeros_if(options.track_running_stats, {options.features})),
      running_var(*this, "running_var", ones_if(options.track_running_stats, {options.features})),
      num_batches_tracked(*this, "num_batches_tracked",
                          options.track_running_stats ? zeros({}, kInt64) : Tensor()) {}

void BatchNorm::reset_running_stats() {
  if (!options.track_running_stats) return;
  init::zeros_(running_mean);
  init::ones_(running_var);
  init::zeros_(num_batches_tracked);
}

Tensor BatchNorm::forward(const Tensor& input) const {
  check<ValueError>(input.defined(), "{}: the input is an undefined tensor", type_name());
  check_input(input);
  check_batch(*this, input);
  const bool updates = is_training() && options.track_running_stats;
  double momentum = options.momentum.value_or(0);
  // The null device keeps no count; any momentum gives the same sizes.
  if (updates && !options.momentum && !num_batches_tracked.device().is_null()) {
    momentum = 1 / (num_batches_tracked.item() + 1);
  }
  Tensor result =
      functional::batch_norm(input, running_mean, running_var, weight, bias,
                             is_training() || !options.track_running_stats, momentum, options.eps);
  if (updates) {
    const NoGradGuard no_grad;
    num_batches_tracked.add_(1);
  }
  return result;
}

BatchNorm1d::BatchNorm1d(BatchNormOptions options, Place place) : BatchNorm(options, place) {}

void BatchNorm1d::check_input(const Tensor& input) const {
  check<ShapeError>(input.dim() == 2 || input.dim() == 3,
                    "BatchNorm1d: expected an input of size [N, {0}] or [N, {0}, L], got {1}",
                    options.features, input.sizes());
}

BatchNorm2d::BatchNorm2d(BatchNormOptions options, Place place) : BatchNorm(options, place) {}

void BatchNorm2d::check_input(const Tensor& input) const {
  check<ShapeError>(input.dim() == 4,
                    "BatchNorm2d: expected an input of size [N, {}, H, W], got {}",
                    options.features, input.sizes());
}

// --- Pooling -------------------------------------------------------------------------------------

MaxPool2d::MaxPool2d(MaxPool2dOptions wanted, Place place) : Module(place), options(wanted) {
  check_positive(options.kernel, "MaxPool2d", "kernel");
  check_positive(options.stride.value_or(options.kernel), "MaxPool2d", "stride");
  check_positive(options.dilation, "MaxPool2d", "dilation");
  check_pool_padding(options.padding, options.kernel, "MaxPool2d");
}

Tensor MaxPool2d::forward(const Tensor& input) const {
  return functional::max_pool2d(input, options.kernel, options.stride.value_or(options.kernel),
                                options.padding, options.dilation, options.ceil_mode);
}

AvgPool2d::AvgPool2d(AvgPool2dOptions wanted, Place place) : Module(place), options(wanted) {
  check_positive(options.kernel, "AvgPool2d", "kernel");
  check_positive(options.stride.value_or(options.kernel), "AvgPool2d", "stride");
  check_pool_padding(options.padding, options.kernel, "AvgPool2d");
}

Tensor AvgPool2d::forward(const Tensor& input) const {
  return functional::avg_pool2d(input, options.kernel, options.stride.value_or(options.kernel),
                                options.padding, options.ceil_mode, options.count_include_pad);
}

AdaptiveAvgPool2d::AdaptiveAvgPool2d(AdaptiveAvgPool2dOptions wanted, Place place)
    : Module(place), options(wanted) {
  check_positive(options.output, "AdaptiveAvgPool2d", "output");
}

Tensor AdaptiveAvgPool2d::forward(const Tensor& input) const {
  return functional::adaptive_avg_pool2d(input, options.output);
}

// --- Activations and others ----------------------------------------------------------------------

ReLU::ReLU(ActivationOptions wanted, Place place) : Module(place), options(wanted) {}
Tensor ReLU::forward(const Tensor& input) const { return functional::relu(input); }
Tensor ReLU::consume(Tensor input) const { return functional::relu(std::move(input)); }

ReLU6::ReLU6(ActivationOptions wanted, Place place) : Module(place), options(wanted) {}
Tensor ReLU6::forward(const Tensor& input) const { return functional::relu6(input); }
Tensor ReLU6::consume(Tensor input) const { return functional::relu6(std::move(input)); }

LeakyReLU::LeakyReLU(LeakyReLUOptions wanted, Place place) : Module(place), options(wanted) {}
Tensor LeakyReLU::forward(const Tensor& input) const {
  return functional::leaky_relu(input, options.negative_slope);
}

ELU::ELU(ELUOptions wanted, Place place) : Module(place), options(wanted) {}
Tensor ELU::forward(const Tensor& input) const { return functional::elu(input, options.alpha); }

GELU::GELU(GELUOptions wanted, Place place) : Module(place), options(std::move(wanted)) {
  check<ValueError>(options.approximate == "none" || options.approximate == "tanh",
                    "GELU: option approximate is \"{}\"; use \"none\" or \"tanh\"",
                    options.approximate);
}
Tensor GELU::forward(const Tensor& input) const {
  return functional::gelu(input, options.approximate);
}
Tensor GELU::consume(Tensor input) const {
  return functional::gelu(std::move(input), options.approximate);
}

SiLU::SiLU(ActivationOptions wanted, Place place) : Module(place), options(wanted) {}
Tensor SiLU::forward(const Tensor& input) const { return functional::silu(input); }

Mish::Mish(ActivationOptions wanted, Place place) : Module(place), options(wanted) {}
Tensor Mish::forward(const Tensor& input) const { return functional::mish(input); }

Hardswish::Hardswish(ActivationOptions wanted, Place place) : Module(place), options(wanted) {}
Tensor Hardswish::forward(const Tensor& input) const { return functional::hardswish(input); }

Hardtanh::Hardtanh(HardtanhOptions wanted, Place place) : Module(place), options(wanted) {
  check<ValueError>(options.min_val < options.max_val,
                    "Hardtanh: option min_val is {}, must be below max_val = {}", options.min_val,
                    options.max_val);
}
Tensor Hardtanh::forward(const Tensor& input) const {
  return functional::hardtanh(input, options.min_val, options.max_val);
}

Softplus::Softplus(SoftplusOptions wanted, Place place) : Module(place), options(wanted) {}
Tensor Softplus::forward(const Tensor& input) const {
  return functional::softplus(input, options.beta, options.threshold);
}

Tensor Sigmoid::forward(const Tensor& input) const { return functional::sigmoid(input); }
Tensor Tanh::forward(const Tensor& input) const { return functional::tanh(input); }

Softmax::Softmax(SoftmaxOptions wanted, Place place) : Module(place), options(wanted) {}
Tensor Softmax::forward(const Tensor& input) const {
  return functional::softmax(input, options.dim);
}

LogSoftmax::LogSoftmax(SoftmaxOptions wanted, Place place) : Module(place), options(wanted) {}
Tensor LogSoftmax::forward(const Tensor& input) const {
  return functional::log_softmax(input, options.dim);
}

Dropout::Dropout(DropoutOptions wanted, Place place) : Module(place), options(wanted) {
  check<ValueError>(options.p >= 0 && options.p <= 1,
                    "Dropout: option p is {}, must be a probability between 0 and 1", options.p);
}
Tensor Dropout::forward(const Tensor& input) const {
  return is_training() ? functional::dropout(input, options.p, true) : input;
}

Flatten::Flatten(FlattenOptions wanted, Place place) : Module(place), options(wanted) {}
Tensor Flatten::forward(const Tensor& input) const {
  return functional::flatten(input, options.start_dim, options.end_dim);
}

}  // namespace facula::nn
