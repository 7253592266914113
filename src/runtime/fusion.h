// Which results are deferred, and what is computed in one pass with them.
//
//   relu(batch_norm(x)), relu(batch_norm(x) + y)   in training: batch_norm_relu
//   relu(affine(x)), relu(affine(x) + y)           in evaluation: channel_affine_relu
//   affine(conv2d(x)), both of the above of it     without gradients of the map: conv2d_fused
//   relu(conv2d(x))                                conv2d_fused
//   relu(linear(x))                                linear_fused
//   gelu(linear(x))                                without gradients: linear_fused
//
// and in backward passes, of gradients g that arrive at the input of a convolution or pooling:
//
//   g + other                                      of conv2d: conv2d_backward_input_fused
//   relu_backward(g, y), also of that sum          the same, or max_pool2d_backward
//
// A convolution or linear layer is fused only if nobody else holds its result, which is never
// computed then.
//
// With gradients being recorded, a fused call replaces its parts on the tape; it therefore requires
// that nobody else holds what lies between: relu must be given a temporary or std::move(x), or
// follow in an nn::Sequential. It saves the bias, to find relu's zeros: changing that in place
// between forward and backward is an error, where it was none for the parts.
#pragma once

#include "ops/schema/call.h"
#include "ops/schema/op_def.h"

namespace facula::runtime {

/// True if `tensor` waits for normalization, or for an affine map of each channel, alone, or is the
/// gradient of a convolution's input, and waits: then a sum with it may wait as well.
bool waits_for_sum(const Tensor& tensor);

/// Makes the outputs of a call whose first result may wait, without computing that; false if it may
/// not.
bool defer_call(const Call& call, const SmallVector<OutputSpec, 4>& specs, Outputs& outputs);

/// Runs a call together with what its deferred input waits for, and records it. `owned`: the caller
/// gives up the first input. False if there is nothing to fuse.
bool run_fused(const Call& call, bool owned, Outputs& outputs);

}  // namespace facula::runtime
