// Convolutions as problems of tests.
#pragma once

#include <string>

#include <facula/ops.h>

#include "ops/schema/convolution.h"
#include "tests/backends/kernel_check.h"

namespace facula {

struct Conv2dProblem {
  Dims input, weight;
  Dims stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  std::int64_t groups = 1;

  std::string str() const {
    return fmt::format("input {} weight {} stride {} padding {} dilation {} groups {}", input,
                       weight, stride, padding, dilation, groups);
  }
  Dims output() const {
    return conv_shape("test", input, weight, {stride, padding, dilation, groups}).output_sizes();
  }
};

/// The convolution and both its gradients.
inline Results conv2d_and_gradients(const Conv2dProblem& p, const Tensor& x, const Tensor& weight,
                                    const Tensor& bias, const Tensor& grad) {
  return {conv2d(x, weight, bias, p.stride, p.padding, p.dilation, p.groups),
          conv2d_backward_input(grad, weight, p.input, p.stride, p.padding, p.dilation, p.groups),
          conv2d_backward_weight(grad, x, {p.weight[2], p.weight[3]}, p.stride, p.padding,
                                 p.dilation, p.groups)};
}

/// The same of random float32 values, images and weights in the given layouts, some with bias.
inline std::function<Results()> random_conv2d(Source& source, const Conv2dProblem& p,
                                              MemoryFormat images, MemoryFormat weights) {
  const Tensor x = source.values(p.input, kFloat32, images);
  const Tensor grad = source.values(p.output(), kFloat32, images);
  const Tensor weight = source.values(p.weight, kFloat32, weights);
  const Tensor bias = source.coin() ? source.values({p.weight[0]}) : Tensor();
  return [=] { return conv2d_and_gradients(p, x, weight, bias, grad); };
}

}  // namespace facula
