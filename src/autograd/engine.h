// The backward pass, and what it starts from.
#pragma once

#include <span>
#include <vector>

#include "autograd/node.h"

namespace facula::autograd {

struct BackwardOptions {
  bool retain_graph = false;
  bool create_graph = false;
  /// Gradients of these edges are captured instead of accumulated into leaves; empty: accumulate.
  std::span<const Edge> targets = {};
};

/// Propagates `gradients` from `roots`. Returns one gradient per target, undefined where unreached.
/// Runs on the calling thread; nested calls (from custom functions, checkpointing) are allowed.
std::vector<Tensor> run_backward(std::span<const Edge> roots, std::vector<Tensor> gradients,
                                 const BackwardOptions& options);

/// False if the running sweep has targets and none of them lies behind `node`.
bool wanted_in_sweep(const Node& node);

/// Where the running sweep collects the gradient that flows along `edge`. Null outside sweeps.
Tensor* sum_in_sweep(const Edge& edge);

/// Zeroes a leaf's gradient, which lets go of the graph it may hold, or forgets it.
void reset_gradient(const Tensor& leaf, bool set_to_none);

}  // namespace facula::autograd
