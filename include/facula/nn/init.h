// Initial values. All functions overwrite a tensor of any layout on any device without being
// recorded, draw from `generator` (null: the default one), and return the tensor.
#pragma once

#include <cstdint>

#include <facula/generator.h>
#include <facula/tensor.h>

namespace facula::nn::init {

enum class FanMode : std::uint8_t { fan_in, fan_out };
enum class Nonlinearity : std::uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };

struct Fans {
  std::int64_t in, out;
};
/// Inputs and outputs of one unit, for weights [out, in, ...kernel]. Throws ShapeError below 2-d.
FACULA_API Fans calculate_fan_in_and_fan_out(const Tensor& weight);
/// Factor that keeps the variance through a nonlinearity; `slope` is that of leaky_relu.
FACULA_API double calculate_gain(Nonlinearity nonlinearity, double slope = 0.01);

FACULA_API const Tensor& constant_(const Tensor& tensor, double value);
FACULA_API const Tensor& zeros_(const Tensor& tensor);
FACULA_API const Tensor& ones_(const Tensor& tensor);
/// Uniform on [low, high), or up to high where 16 bits round to it.
FACULA_API const Tensor& uniform_(const Tensor& tensor, double low = 0, double high = 1,
                                  Generator* generator = nullptr);
FACULA_API const Tensor& normal_(const Tensor& tensor, double mean = 0, double std = 1,
                                 Generator* generator = nullptr);
/// Normal, with values outside [low, high] drawn again.
FACULA_API const Tensor& trunc_normal_(const Tensor& tensor, double mean = 0, double std = 1,
                                       double low = -2, double high = 2,
                                       Generator* generator = nullptr);
/// Orthonormal rows or columns of the tensor seen as [size(0), rest], times `gain` (Saxe et al.
/// 2013).
FACULA_API const Tensor& orthogonal_(const Tensor& tensor, double gain = 1,
                                     Generator* generator = nullptr);

/// `a` is the negative slope of a leaky_relu that follows.
struct KaimingOptions {
  double a = 0;
  FanMode mode = FanMode::fan_in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};
/// Variance gain^2 / fan (He et al., 2015).
FACULA_API const Tensor& kaiming_uniform_(const Tensor& tensor, const KaimingOptions& options = {},
                                          Generator* generator = nullptr);
FACULA_API const Tensor& kaiming_normal_(const Tensor& tensor, const KaimingOptions& options = {},
                                         Generator* generator = nullptr);
/// Variance gain^2 * 2 / (fan_in + fan_out) (Glorot & Bengio, 2010).
FACULA_API const Tensor& xavier_uniform_(const Tensor& tensor, double gain = 1,
                                         Generator* generator = nullptr);
FACULA_API const Tensor& xavier_normal_(const Tensor& tensor, double gain = 1,
                                        Generator* generator = nullptr);

}  // namespace facula::nn::init
