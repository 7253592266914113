#include <facula/autograd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "autograd/node.h"
#include "base/check.h"
#include "core/promotion.h"

namespace facula::autograd {
namespace {

std::int64_t next_id() {
  static std::atomic<std::int64_t> id = 0;
  return ++id;
}

Accumulator& accumulator_of_leaf(const Tensor& leaf, const char* function) {
  check<AutogradError>(leaf.requires_grad() && leaf.is_leaf(),
                       "{}: the tensor is no leaf that requires grad; use a parameter, or a tensor "
                       "after requires_grad_()",
                       function);
  return accumulator(*accumulator_of(*leaf.impl()));
}

/// Removes hook `id` of `node`. It holds the node, not the tensor, which gets another node by an
/// in-place operation while the hook stays.
HookHandle handle_of(Node* node, std::int64_t id) {
  retain(node);
  const std::shared_ptr<Node> shared(node, [](Node* last) { release(last); });
  return HookHandle([shared, id] {
    auto has_id = [id](const auto& hook) { return hook.id == id; };
    std::erase_if(shared->extras->gradient_hooks, has_id);
    std::erase_if(shared->extras->accumulation_hooks, has_id);
  });
}

}  // namespace

void HookHandle::remove() {
  if (const std::function<void()> remove = std::exchange(remove_, nullptr)) remove();
}

HookHandle register_hook(const Tensor& tensor, std::function<Tensor(const Tensor&)> hook) {
  check<ValueError>(hook != nullptr, "register_hook: the hook is empty; pass a function");
  check<AutogradError>(tensor.requires_grad(),
                       "register_hook: the tensor does not require grad, so it gets no gradient");
  const Edge edge = edge_of(tensor);
  const std::int64_t id = next_id();
  // NOLINTNEXTLINE(*-core.NonNullParamChecker): what requires grad has a node
  extras_of(*edge.node).gradient_hooks.push_back({id, edge.index, std::move(hook)});
  return handle_of(edge.node, id);
}

HookHandle register_post_accumulate_grad_hook(const Tensor& leaf,
                                              std::function<void(const Tensor&)> hook) {
  check<ValueError>(hook != nullptr,
                    "register_post_accumulate_grad_hook: the hook is empty; pass a function");
  accumulator_of_leaf(leaf, "register_post_accumulate_grad_hook");
  const std::int64_t id = next_id();
  Node* node = leaf.impl()->node;
  extras_of(*node).accumulation_hooks.push_back({id, std::move(hook)});
  return handle_of(node, id);
}

void set_grad_buffer(const Tensor& leaf, const Tensor& buffer) {
  Accumulator& state = accumulator_of_leaf(leaf, "set_grad_buffer");
  check<AutogradError>(buffer.defined() && !buffer.requires_grad(),
                       "set_grad_buffer: the buffer is undefined or requires grad itself");
  check<ShapeError>(buffer.sizes() == leaf.sizes(),
                    "set_grad_buffer: a buffer of size {} for a tensor of size {}", buffer.sizes(),
                    leaf.sizes());
  check<DTypeError>(buffer.dtype() == gradient_dtype(leaf.dtype()),
                    "set_grad_buffer: a {} buffer for a {} tensor", name_of(buffer.dtype()),
                    name_of(leaf.dtype()));
  check<DeviceError>(buffer.device() == leaf.device(),
                     "set_grad_buffer: a buffer on {} for a tensor on {}", buffer.device().str(),
                     leaf.device().str());
  const Tensor replaced = Tensor::adopt(std::exchange(state.gradient, Tensor(buffer).leak()));
  state.fixed_buffer = true;
  state.empty = true;
}

}  // namespace facula::autograd
