// What the layers compute, as functions of their inputs and parameters. They are ops of the
// library; their arguments are listed in share/doc/facula/ops_index.md.
#pragma once

#include <facula/ops.h>

namespace facula::nn::functional {

using facula::adaptive_avg_pool2d;
using facula::avg_pool2d;
using facula::batch_norm;
using facula::celu;
using facula::conv2d;
using facula::conv_transpose2d;
using facula::dropout;
using facula::elu;
using facula::flatten;
using facula::gelu;
using facula::hardsigmoid;
using facula::hardswish;
using facula::hardtanh;
using facula::leaky_relu;
using facula::linear;
using facula::log_softmax;
using facula::logsigmoid;
using facula::max_pool2d;
using facula::max_pool2d_with_indices;
using facula::mish;
using facula::one_hot;
using facula::pad;
using facula::relu;
using facula::relu6;
using facula::selu;
using facula::sigmoid;
using facula::silu;
using facula::softmax;
using facula::softplus;
using facula::softsign;
using facula::tanh;

using facula::binary_cross_entropy_with_logits;
using facula::cross_entropy;
using facula::huber_loss;
using facula::l1_loss;
using facula::mse_loss;
using facula::nll_loss;
using facula::smooth_l1_loss;

}  // namespace facula::nn::functional
