// The tape: one node per recorded call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <facula/tensor.h>

#include "core/tensor_impl.h"
#include "runtime/op_registry.h"

namespace facula::autograd {

struct Node;
class Segment;

/// Where the gradient of an input flows: output `index` of `node`. Null: nowhere.
struct Edge {
  Node* node = nullptr;
  std::uint32_t index = 0;
};

/// A tensor kept for backward and the write count it had then.
struct SavedTensor {
  TensorImpl* tensor = nullptr;
  std::uint32_t version = 0;
};

/// Rare additions to a node.
struct NodeExtras;

/// What kinds of node do differently.
struct NodeKind {
  const char* name;
  /// Computes the gradients of the inputs from those of the outputs.
  void (*apply)(Node& node, Tensor* output_gradients, Tensor* input_gradients);
  /// Destroys what follows the node's slots; may be null.
  void (*destroy)(Node& node) noexcept;
};

/// A recorded call: header, then `inputs` edges, `saved` slots, `shapes` slots and the attributes.
struct Node {
  std::int32_t references = 1;
  std::uint16_t inputs = 0;
  std::uint16_t outputs = 0;
  std::uint16_t saved = 0;   ///< slots of the op's save plan
  std::uint16_t shapes = 0;  ///< shapes of the inputs where they were broadcast: 0 or `inputs`
  std::uint16_t attr_bytes = 0;
  bool released = false;  ///< saved tensors are gone: backward has run through
  const NodeKind* kind = nullptr;
  const Op* op = nullptr;  ///< null for nodes that are no op
  /// Links nodes that nobody refers to.
  Node* doomed = nullptr;
  /// Where the backward pass that visited the node last has it in its table.
  std::uint32_t place = 0;
  std::uint32_t bytes = 0;  ///< of the whole allocation
  NodeExtras* extras = nullptr;
  /// The tensor that part_from_saved() looked for last, here and in all that comes before.
  const TensorImpl* searched_for = nullptr;

  Edge* edges() { return reinterpret_cast<Edge*>(this + 1); }
  SavedTensor* slots() { return reinterpret_cast<SavedTensor*>(edges() + inputs); }
  SavedTensor* shape_slots() { return slots() + saved; }
  void* attrs() { return shape_slots() + shapes; }
  const char* name() const { return op ? op->name : kind->name; }
};

/// Allocates a node with empty slots and `attr_bytes` uninitialised bytes behind them.
Node* new_node(const NodeKind& kind, std::size_t inputs, std::size_t outputs, std::size_t saved,
               std::size_t shapes, std::size_t attr_bytes);
inline void retain(Node* node) noexcept {
  __atomic_fetch_add(&node->references, 1, __ATOMIC_RELAXED);
}
/// Gives up the elements of what the node keeps for backward; shapes stay.
void release_saved(Node& node) noexcept;

/// The node accumulating a leaf's gradient, made on first use.
Node* accumulator_of(TensorImpl& leaf);
/// The edge along which the gradient of `tensor` flows; null if it needs none.
inline Edge edge_of(const Tensor& tensor) {
  TensorImpl* impl = tensor.impl();
  if (!impl || !impl->requires_grad()) return {};
  return {impl->node ? impl->node : accumulator_of(*impl), impl->output_index};
}

/// Parts a tensor from the node it has.
void drop_history(TensorImpl& tensor) noexcept;
/// Makes `output` the result `index` of `node`.
void set_history(Tensor& output, Node* node, std::size_t index);
/// The same, taking over the caller's reference to `node`.
inline void adopt_history(Tensor& output, Node* node, std::size_t index) {
  TensorImpl& impl = *output.impl();
  if (impl.node) drop_history(impl);
  impl.node = node;
  impl.output_index = static_cast<std::uint16_t>(index);
  impl.change(TensorImpl::kRequiresGrad, TensorImpl::kIsLeafVariable);
}

/// Writable history of a tensor, made on demand: hooks and retained gradients hang on the node.
struct NodeExtras {
  struct GradHook {
    std::int64_t id;
    std::uint32_t output;
    std::function<Tensor(const Tensor&)> callback;
  };
  struct AccumulationHook {
    std::int64_t id;
    std::function<void(const Tensor&)> callback;
  };
  /// An output whose tensor was asked to keep its gradient.
  struct Retained {
    std::uint32_t output;
    Tensor gradient;
  };
  std::vector<GradHook> gradient_hooks;
  std::vector<AccumulationHook> accumulation_hooks;
  std::vector<Retained> retained;
  std::string origin;  ///< anomaly mode: module path and backtrace of the forward call
  /// Of a node in a checkpointed segment: the number of each slot's dropped value, or -1.
  std::shared_ptr<Segment> segment;
  std::vector<std::int64_t> segment_numbers;
};
NodeExtras& extras_of(Node& node);
/// What is kept of the gradient of `tensor`; null unless retain_grad() was called.
NodeExtras::Retained* retained_of(const TensorImpl& tensor);

/// State of a leaf's accumulator node, found behind its slots.
struct Accumulator {
  TensorImpl* variable;  ///< not owned; null once the leaf is gone
  TensorImpl* gradient;  ///< owned
  bool fixed_buffer;     ///< `gradient` is memory assigned by the user: write into it
  bool empty;            ///< a fixed buffer without a gradient in it yet
};
Accumulator& accumulator(Node& node);
/// Guards an accumulator, which several threads may use at a time. Nothing that may be the last of
/// its kind is released under it.
std::mutex& mutex_of(const Node& accumulator);
/// A handle of the leaf; undefined once it is gone.
Tensor variable_of(Node& accumulator);
extern const NodeKind kAccumulateKind;
extern const NodeKind kOpKind;

}  // namespace facula::autograd
