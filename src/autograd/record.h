// How the dispatcher hands calls to the tape.
#pragma once

#include <span>
#include <string>

#include "ops/op_ids.h"
#include "ops/schema/call.h"

namespace facula::autograd {

/// Appends a node for a call that has just run and makes it the history of the outputs.
void record(const Call& call, std::span<Tensor> outputs);
/// `self` continues with the history of `result`, or none if that has none.
void rebase(const Tensor& self, const Tensor& result);
/// What a recorded in-place call reads in place of `self`, which must not be part of its own
/// history. Where backward needs the old values, they are copied.
Tensor before_write(const Tensor& self, bool keep_values);
/// True if a hook or retain_grad() waits for the gradient of `tensor`.
bool observed(const Tensor& tensor);
/// True if `tensor` is the first result of a recorded call of the op.
bool made_by(const Tensor& tensor, OpId id);
/// The op that made `tensor` in PyTorch's notation: "AddBackward0".
std::string history_name(const Tensor& tensor);

}  // namespace facula::autograd
