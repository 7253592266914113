// What the layers compute, as functions of their inputs and parameters. They are ops of the
// library; their arguments are listed in the ops index.
#pragma once

#include <facula/ops.h>

namespace facula::nn::functional {

using facula::adaptive_avg_pool2d;
using facula::avg_pool2d;
using facula::batch_norm;
using facula::conv2d;
using facula::dropout;
using facula::flatten;
using facula::gelu;
using facula::leaky_relu;
using facula::linear;
using facula::log_softmax;
using facula::max_pool2d;
using facula::relu;
using facula::relu6;
using facula::sigmoid;
using facula::silu;
using facula::softmax;
using facula::tanh;

using facula::binary_cross_entropy_with_logits;
using facula::cross_entropy;
using facula::l1_loss;
using facula::mse_loss;
using facula::nll_loss;

}  // namespace facula::nn::functional
