// What the batch normalization ops have in common.
#pragma once

#include <initializer_list>
#include <tuple>

#include "ops/schema/op_def.h"

namespace facula {

/// Checks an input [N, C, ...] of which statistics are taken and returns C.
std::int64_t check_normalizable(const Tensor& input, const char* op);
/// Shapes of (self, weight, bias, ...) -> (result, means [C], 1/sqrt(variance + eps) [C]).
void infer_batch_norm(Infer& c, const char* op);
/// Shapes of (grad, input, ...) -> the gradients of input, weight and bias; inputs `per_channel`,
/// mean and invstd last, are [C].
void infer_batch_norm_backward(Infer& c, const Tensor& input,
                               std::initializer_list<int> per_channel, const char* op);

/// Sets the gradients of inputs 0 (self), 1 (weight) and 2 (bias).
void set_batch_norm_gradients(GradientContext& g, std::tuple<Tensor, Tensor, Tensor> gradients);
/// The gradients of inputs 0 (self), 1 (weight) and 2 (bias) in terms of differentiable ops,
/// through the statistics, of which mean and invstd are outputs 1 and 2. `grad` and `grad_variance`
/// are those of the normalized values and of the biased variance, undefined for 0.
void composed_batch_norm_gradient(GradientContext& g, const Tensor& grad,
                                  const Tensor& grad_variance, const Tensor& input,
                                  const Tensor& weight, double eps);

}  // namespace facula
