#include "autograd/saved.h"

#include <span>
#include <utility>
#include <vector>

#include "autograd/anomaly.h"
#include "autograd/checkpoint.h"
#include "autograd/recipe.h"
#include "base/check.h"
#include "runtime/mode.h"

namespace facula::autograd {
namespace {

std::uint32_t version_of(const TensorImpl& impl) {
  return impl.storage ? impl.storage->version : 0;
}

/// The same elements with the same history as a tensor that keeps it when `impl`, or the base of
/// which that is a view, gets another.
[[gnu::noinline]] Tensor double_of(const TensorImpl& impl) {
  Tensor result = alias(impl);
  if (impl.requires_grad()) set_history(result, impl.node, impl.output_index);
  return result;
}

}  // namespace

void save(Node& node, std::size_t slot, const Tensor& tensor, const Call* call) {
  const TensorImpl& impl = *tensor.impl();
  check<AutogradError>(!impl.has(TensorImpl::kInferenceTensor),
                       "{}: a tensor made in InferenceMode is needed for a gradient; make it "
                       "outside, or copy it with to(dtype, false, true) first",
                       node.name());
  const bool leaf = impl.has(TensorImpl::kIsLeafVariable) && impl.requires_grad();
  if (runtime::tl_mode & runtime::kCheckpoint && Segment::capture(node, slot, tensor, !leaf)) {
    Tensor shape = shape_only(impl);
    // For higher derivatives the recomputed value is connected where the original was.
    if (impl.node && !leaf) set_history(shape, impl.node, impl.output_index);
    node.slots()[slot].tensor = shape.leak();
    return;
  }
  Tensor kept = call ? recipe(*call, tensor) : Tensor();
  // The history of the base may come to hold the node.
  if (!kept.defined() && impl.has(TensorImpl::kIsView) && !leaf) kept = double_of(impl);
  if (!kept.defined()) {
    kept = tensor;
    if (!impl.has(TensorImpl::kSaved)) kept.impl()->set(TensorImpl::kSaved);
  }
  const std::uint32_t version = version_of(*kept.impl());
  node.slots()[slot] = {kept.leak(), version};
}

void part_from_saved(TensorImpl& tensor, Node& node) {
  if (!tensor.has(TensorImpl::kSaved)) return;
  // A node keeps nothing more once it is made: it is searched once, not for each write that
  // follows, and nothing in the present history keeps the tensor. A later tensor at the same
  // address is none that earlier nodes know.
  const auto search = [&](Node* next) {
    return next && __atomic_exchange_n(&next->searched_for, &tensor, __ATOMIC_RELAXED) != &tensor;
  };
  search(tensor.node);
  std::vector<Node*> found;
  if (search(&node)) found.push_back(&node);
  while (!found.empty()) {
    Node& next = *found.back();
    found.pop_back();
    for (SavedTensor& slot : std::span(next.slots(), next.saved)) {
      if (slot.tensor != &tensor) continue;
      const Tensor kept = Tensor::adopt(std::exchange(slot.tensor, double_of(tensor).leak()));
    }
    for (const Edge& edge : std::span(next.edges(), next.inputs)) {
      if (search(edge.node)) found.push_back(edge.node);
    }
  }
}

void save_output(Node& node, std::size_t slot, const Tensor& output) {
  if (runtime::tl_mode & runtime::kCheckpoint && Segment::capture(node, slot, output, true)) {
    node.slots()[slot].tensor = shape_only(*output.impl()).leak();
    return;
  }
  node.slots()[slot] = {alias_of_result(*output.impl()).leak(), version_of(*output.impl())};
}

Tensor unpack(const Node& node, const SavedTensor& slot, const char* what, std::size_t index) {
  if (const TensorImpl* kept = slot.tensor;
      kept && kept->storage && !node.extras && kept->storage->version == slot.version) [[likely]] {
    __atomic_fetch_add(&slot.tensor->references, 1, __ATOMIC_RELAXED);
    return Tensor::adopt(slot.tensor);
  }
  const bool freed = node.released && (!slot.tensor || Segment::captured(node, slot));
  check<AutogradError>(
      !freed,
      "backward through {}: its saved tensors were freed by an earlier backward; pass "
      "retain_graph = true to the first call to go through a graph twice",
      node.name());
  check<AutogradError>(slot.tensor != nullptr,
                       "backward through {}: {} {} was not saved; this is an error in the op's "
                       "definition",
                       node.name(), what, index);
  if (Segment::captured(node, slot)) return Segment::recompute(node, slot);
  if (slot.tensor->storage) {
    const std::uint32_t now = slot.tensor->storage->version;
    if (now != slot.version) {
      fail<AutogradError>(
          "backward through {}: {} {} of size {} was changed in place after it was used (version "
          "{}, expected {}); use the out-of-place operation or copy it before changing it\n{}",
          node.name(), what, index, slot.tensor->size_list(), now, slot.version, origin_of(node));
    }
  }
  __atomic_fetch_add(&slot.tensor->references, 1, __ATOMIC_RELAXED);
  return Tensor::adopt(slot.tensor);
}

}  // namespace facula::autograd
