// Ops that treat dimension 1 as channels.
#pragma once

#include <optional>

#include "ops/schema/op_def.h"

namespace facula {

/// Checks an input [N, C] or [N, C, ...] of a channel op and returns C.
std::int64_t check_channels(const Tensor& input, const char* op);
/// Checks a per-channel tensor [C] of the input's dtype; absent ones pass.
void check_per_channel(const Tensor& values, const char* name, const Tensor& input, const char* op);
/// Checks what is added to a result of the input's size and dtype; absent ones pass.
void check_residual(const Tensor& residual, const Tensor& input, const char* op);
/// Checks the upper bound of relu.
void check_cap(std::optional<double> cap, const char* op);
/// The gradient of min(max(x, 0), cap), given that result.
Tensor relu_backward(Tensor grad, const Tensor& result, std::optional<double> cap);
/// True for images that are stored so. Where one layout is as dense as the other, as with one
/// channel or one pixel, the strides tell which was asked for, as in PyTorch.
bool is_channels_last(const Tensor& tensor);
/// channels_last if the input is stored so, else contiguous: what channel ops produce.
MemoryFormat channel_format(const Tensor& input);
/// [1, C, 1, ...] view of per-channel values for broadcasting against an input of `rank`
/// dimensions.
Tensor along_channels(const Tensor& values, int rank);
/// Every dimension but 1.
Dims all_but_channels(int rank);

}  // namespace facula
