// Anomaly mode: which forward call is to blame for a bad gradient.
#pragma once

#include "autograd/node.h"

namespace facula::autograd {

/// Stores the current module path and a backtrace with the node.
void remember_origin(Node& node);
/// What remember_origin() stored, or how to have it stored.
std::string origin_of(const Node& node);
/// Throws AutogradError if a gradient that `node` returned is NaN.
void check_gradients(Node& node, const Tensor* gradients);

}  // namespace facula::autograd
