#include <facula/nn/init.h>

#include <algorithm>
#include <cmath>

#include <facula/autograd.h>

#include "base/check.h"

namespace facula::nn::init {

Fans calculate_fan_in_and_fan_out(const Tensor& weight) {
  check<ShapeError>(
      weight.dim() >= 2,
      "init: fan-in and fan-out are defined for weights of 2 and more dimensions, got "
      "size {}; use uniform_ or normal_",
      weight.sizes());
  std::int64_t kernel = 1;
  for (int d = 2; d < weight.dim(); ++d) kernel *= weight.size(d);
  return {weight.size(1) * kernel, weight.size(0) * kernel};
}

double calculate_gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid: return 1;
    case Nonlinearity::tanh: return 5.0 / 3;
    case Nonlinearity::relu: return std::sqrt(2.0);
    case Nonlinearity::leaky_relu: return std::sqrt(2 / (1 + slope * slope));
    case Nonlinearity::selu: return 0.75;
  }
  return 1;
}

const Tensor& constant_(const Tensor& tensor, double value) {
  const NoGradGuard no_grad;
  return tensor.fill_(value);
}
const Tensor& zeros_(const Tensor& tensor) { return constant_(tensor, 0); }
const Tensor& ones_(const Tensor& tensor) { return constant_(tensor, 1); }

const Tensor& uniform_(const Tensor& tensor, double low, double high, Generator* generator) {
  const NoGradGuard no_grad;
  return tensor.uniform_(low, high, generator);
}

const Tensor& normal_(const Tensor& tensor, double mean, double std, Generator* generator) {
  const NoGradGuard no_grad;
  return tensor.normal_(mean, std, generator);
}

namespace {

void check_floating(const Tensor& tensor, const char* function) {
  check<DTypeError>(tensor.is_floating_point(),
                    "{}: a tensor of {}, expected a floating dtype; convert it with to(kFloat32)",
                    function, name_of(tensor.dtype()));
}

/// Random values are defined by logical index; they are drawn on the CPU for every device.
const Tensor& fill_from(const Tensor& tensor, const Tensor& values) {
  if (tensor.device().is_null()) return tensor;
  return tensor.copy_(values.to(tensor.device()));
}

/// Upper tail of the standard normal distribution.
double normal_tail(double x) { return 0.5 * std::erfc(x / std::sqrt(2.0)); }

/// The x with normal_tail(x) = p. For x >= 0 the tail is convex and falling, so that Newton's
/// method approaches the solution from 0 without overshooting.
double inverse_normal_tail(double p) {
  if (p > 0.5) return -inverse_normal_tail(1 - p);
  double x = 0;
  for (int i = 0; i < 200; ++i) {
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
    const double step = (normal_tail(x) - p) / density;
    x += step;
    if (!(step > 1e-12)) break;
  }
  return x;
}

}  // namespace

const Tensor& trunc_normal_(const Tensor& tensor, double mean, double std, double low, double high,
                            Generator* generator) {
  check_floating(tensor, "trunc_normal_");
  check<ValueError>(low < high && std > 0 && std::isfinite(std) && std::isfinite(mean),
                    "trunc_normal_: needs low < high, std > 0 and a finite mean, got [{}, {}], {} "
                    "and {}",
                    low, high, std, mean);
  const NoGradGuard no_grad;
  const Tensor values = rand(tensor.sizes(), kFloat64, generator);
  // Below the mean, the upper tail is near 1, where small differences are lost: mirrored.
  const double sign = high < mean ? -1 : 1;
  const double first = normal_tail(sign * (low - mean) / std);
  const double last = normal_tail(sign * (high - mean) / std);
  auto* data = values.data_ptr<double>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const double x = mean + sign * std * inverse_normal_tail(first + (last - first) * data[i]);
    data[i] = std::fmin(std::fmax(x, low), high);
  }
  return fill_from(tensor, values);
}

namespace {

/// Makes the rows orthonormal. Subtracting the earlier rows twice leaves no error worth mentioning
/// ("twice is enough", Giraud et al., 2005).
void orthonormalize_rows(double* data, std::int64_t rows, std::int64_t columns) {
  auto dot = [columns](const double* a, const double* b) {
    double sum = 0;
    for (std::int64_t c = 0; c < columns; ++c) sum += a[c] * b[c];
    return sum;
  };
  for (std::int64_t r = 0; r < rows; ++r) {
    double* row = data + r * columns;
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t k = 0; k < r; ++k) {
        const double* earlier = data + k * columns;
        const double overlap = dot(row, earlier);
        for (std::int64_t c = 0; c < columns; ++c) row[c] -= overlap * earlier[c];
      }
    }
    const double scale = 1 / std::sqrt(dot(row, row));
    for (std::int64_t c = 0; c < columns; ++c) row[c] *= scale;
  }
}

}  // namespace

const Tensor& orthogonal_(const Tensor& tensor, double gain, Generator* generator) {
  check_floating(tensor, "orthogonal_");
  check<ShapeError>(tensor.dim() >= 2, "orthogonal_: needs 2 or more dimensions, got size {}",
                    tensor.sizes());
  if (tensor.numel() == 0) return tensor;
  const NoGradGuard no_grad;
  const std::int64_t rows = tensor.size(0), columns = tensor.numel() / rows;
  const std::int64_t shorter = std::min(rows, columns), longer = std::max(rows, columns);
  const Tensor values = randn({shorter, longer}, kFloat64, generator);
  orthonormalize_rows(values.data_ptr<double>(), shorter, longer);
  const Tensor matrix = rows <= columns ? values : values.permute({1, 0});
  return fill_from(tensor, (matrix * gain).reshape(tensor.sizes()));
}

namespace {

double kaiming_std(const Tensor& tensor, const KaimingOptions& options) {
  const Fans fans = calculate_fan_in_and_fan_out(tensor);
  const std::int64_t fan = options.mode == FanMode::fan_in ? fans.in : fans.out;
  check<ValueError>(fan > 0, "init: a weight of size {} has no inputs or outputs", tensor.sizes());
  return calculate_gain(options.nonlinearity, options.a) / std::sqrt(static_cast<double>(fan));
}

double xavier_std(const Tensor& tensor, double gain) {
  const Fans fans = calculate_fan_in_and_fan_out(tensor);
  check<ValueError>(fans.in + fans.out > 0, "init: a weight of size {} has no inputs or outputs",
                    tensor.sizes());
  return gain * std::sqrt(2.0 / static_cast<double>(fans.in + fans.out));
}

/// A uniform distribution of standard deviation s reaches to +-sqrt(3) s.
const Tensor& uniform_with_std(const Tensor& tensor, double std, Generator* generator) {
  const double bound = std::sqrt(3.0) * std;
  return uniform_(tensor, -bound, bound, generator);
}

}  // namespace

const Tensor& kaiming_uniform_(const Tensor& tensor, const KaimingOptions& options,
                               Generator* generator) {
  return uniform_with_std(tensor, kaiming_std(tensor, options), generator);
}
const Tensor& kaiming_normal_(const Tensor& tensor, const KaimingOptions& options,
                              Generator* generator) {
  return normal_(tensor, 0, kaiming_std(tensor, options), generator);
}
const Tensor& xavier_uniform_(const Tensor& tensor, double gain, Generator* generator) {
  return uniform_with_std(tensor, xavier_std(tensor, gain), generator);
}
const Tensor& xavier_normal_(const Tensor& tensor, double gain, Generator* generator) {
  return normal_(tensor, 0, xavier_std(tensor, gain), generator);
}

}  // namespace facula::nn::init
