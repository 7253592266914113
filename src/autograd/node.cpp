#include "autograd/node.h"

#include <mutex>
#include <new>

#include "autograd/checkpoint.h"
#include "base/check.h"
#include "base/sharded_mutex.h"
#include "core/host_allocator.h"

namespace facula::autograd {
namespace {

void drop(TensorImpl*& tensor) noexcept {
  if (tensor) Tensor::adopt(std::exchange(tensor, nullptr));
}

// Nodes whose last reference is gone while another node is being destroyed. Working through the
// list instead of recursing keeps long chains from exhausting the stack.
thread_local constinit Node* doomed [[gnu::tls_model("initial-exec")]] = nullptr;
thread_local constinit bool destroying [[gnu::tls_model("initial-exec")]] = false;

void destroy_one(Node* node) noexcept {
  SavedTensor* slots = node->slots();
  for (int i = 0, count = node->saved + node->shapes; i < count; ++i) drop(slots[i].tensor);
  if (node->kind->destroy) node->kind->destroy(*node);
  const Edge* edges = node->edges();
  for (int i = 0, count = node->inputs; i < count; ++i) {
    if (Node* next = edges[i].node) release(next);
  }
  delete node->extras;
  host_free(node, node->bytes);
}

}  // namespace

Node* new_node(const NodeKind& kind, std::size_t inputs, std::size_t outputs, std::size_t saved,
               std::size_t shapes, std::size_t attr_bytes) {
  const std::size_t bytes =
      sizeof(Node) + inputs * sizeof(Edge) + (saved + shapes) * sizeof(SavedTensor) + attr_bytes;
  Node* node = new (host_allocate(bytes)) Node;
  node->inputs = static_cast<std::uint16_t>(inputs);
  node->outputs = static_cast<std::uint16_t>(outputs);
  node->saved = static_cast<std::uint16_t>(saved);
  node->shapes = static_cast<std::uint16_t>(shapes);
  node->attr_bytes = static_cast<std::uint16_t>(attr_bytes);
  node->kind = &kind;
  node->bytes = static_cast<std::uint32_t>(bytes);
  auto* edge = node->edges();
  for (std::size_t i = 0; i < inputs; ++i) edge[i] = Edge{};
  auto* slot = reinterpret_cast<SavedTensor*>(edge + inputs);
  for (std::size_t i = 0; i < saved + shapes; ++i) slot[i] = SavedTensor{};
  return node;
}

void release_saved(Node& node) noexcept {
  node.released = true;
  SavedTensor* slots = node.slots();
  for (int i = 0, count = node.saved; i < count; ++i) {
    TensorImpl*& tensor = slots[i].tensor;
    if (tensor && tensor->storage) drop(tensor);
  }
  if (node.extras && node.extras->segment) [[unlikely]]
    Segment::release_values(node);
}

void release(Node* node) noexcept {
  if (__atomic_load_n(&node->references, __ATOMIC_ACQUIRE) != 1 &&
      __atomic_fetch_sub(&node->references, 1, __ATOMIC_ACQ_REL) != 1) {
    return;
  }
  node->doomed = doomed;
  doomed = node;
  if (destroying) return;
  destroying = true;
  while (doomed) {
    Node* next = doomed;
    doomed = next->doomed;
    destroy_one(next);
  }
  destroying = false;
}

void drop_history(TensorImpl& tensor) noexcept {
  if (!tensor.node) return;
  if (tensor.has(TensorImpl::kIsLeafVariable)) {
    const std::lock_guard lock(mutex_of(*tensor.node));
    accumulator(*tensor.node).variable = nullptr;
  }
  release(std::exchange(tensor.node, nullptr));
}

void set_history(Tensor& output, Node* node, std::size_t index) {
  retain(node);
  adopt_history(output, node, index);
}

NodeExtras& extras_of(Node& node) {
  if (!node.extras) node.extras = new NodeExtras;
  return *node.extras;
}

NodeExtras::Retained* retained_of(const TensorImpl& tensor) {
  if (!tensor.node || !tensor.node->extras) return nullptr;
  for (NodeExtras::Retained& entry : tensor.node->extras->retained) {
    if (entry.output == tensor.output_index) return &entry;
  }
  return nullptr;
}

// --- Accumulators of leaves ----------------------------------------------------------------------

Accumulator& accumulator(Node& node) { return *static_cast<Accumulator*>(node.attrs()); }

Node* accumulator_of(TensorImpl& leaf) {
  if (!leaf.node) {
    Node* node = new_node(kAccumulateKind, 0, 1, 0, 0, sizeof(Accumulator));
    new (node->attrs()) Accumulator{&leaf, nullptr, false, false};
    leaf.node = node;
    leaf.output_index = 0;
    leaf.set(TensorImpl::kIsLeafVariable);
  }
  return leaf.node;
}

std::mutex& mutex_of(const Node& node) { return base::sharded_mutex<Accumulator>(&node); }

Tensor variable_of(Node& node) {
  const std::lock_guard lock(mutex_of(node));
  TensorImpl* variable = accumulator(node).variable;
  if (!variable) return {};
  if (__atomic_fetch_add(&variable->references, 1, __ATOMIC_RELAXED) > 0) {
    return Tensor::adopt(variable);
  }
  // Another thread has given up the last handle and is about to destroy the leaf.
  __atomic_fetch_sub(&variable->references, 1, __ATOMIC_RELAXED);
  return {};
}

bool forget_variable(TensorImpl& leaf) noexcept {
  TensorImpl* gradient = nullptr;
  {
    const std::lock_guard lock(mutex_of(*leaf.node));
    if (__atomic_load_n(&leaf.references, __ATOMIC_ACQUIRE) > 1 &&
        __atomic_fetch_sub(&leaf.references, 1, __ATOMIC_ACQ_REL) != 1) {
      return false;
    }
    Accumulator& state = accumulator(*leaf.node);
    state.variable = nullptr;
    gradient = std::exchange(state.gradient, nullptr);
  }
  drop(gradient);
  return true;
}

}  // namespace facula::autograd
