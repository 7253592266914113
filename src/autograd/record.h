// How the dispatcher hands calls to the tape.
#pragma once

#include "ops/schema/call.h"

namespace facula::autograd {

/// Appends a node for a call that has just run and makes it the history of the outputs.
void record(const Call& call, Outputs& outputs);
/// After an in-place write: `self` continues with the history of `result`.
void rebase(const Tensor& self, Tensor& result);

}  // namespace facula::autograd
