// Keeping tensors for backward, and reading them back.
#pragma once

#include <cstddef>

#include "autograd/node.h"

namespace facula::autograd {

/// Keeps `tensor`, an input or an intermediate value of a call, in slot `slot` of the call's node.
/// Inputs of ops, for which `call` is given, may be kept as recipes.
void save(Node& node, std::size_t slot, const Tensor& tensor, const Call* call = nullptr);
/// Called before `tensor` gets the history that begins with `node`. Where nodes of that keep the
/// tensor, as after y.add_(y * w), it would keep itself alive: they get a tensor of the same
/// elements with the present history instead.
void part_from_saved(TensorImpl& tensor, Node& node);
/// Keeps an output of the call without its history: a node must not keep itself alive.
void save_output(Node& node, std::size_t slot, const Tensor& output);

/// The tensor in `slot`; `what` and `index` name it in messages. Throws AutogradError if it has
/// been freed or changed in place since.
Tensor unpack(const Node& node, const SavedTensor& slot, const char* what, std::size_t index);

}  // namespace facula::autograd
