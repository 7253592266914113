// Recording calls on the tape, and what gradient rules see of a recorded call.
#include <cstring>

#include "autograd/anomaly.h"
#include "autograd/engine.h"
#include "autograd/node.h"
#include "autograd/record.h"
#include "base/check.h"
#include "runtime/dispatch.h"
#include "runtime/mode.h"

namespace facula::autograd {
namespace {

void save(SavedTensor& slot, const Tensor& tensor) {
  check<AutogradError>(!tensor.impl()->has(TensorImpl::kInferenceTensor),
                       "a tensor made in InferenceMode is needed for a gradient; make it outside, "
                       "or clone() it first");
  Tensor copy = tensor;
  slot.version = tensor.version();
  slot.tensor = copy.leak();
}

/// An output must not keep its own node alive, so an alias without history is saved.
void save_output(SavedTensor& slot, const Tensor& output) {
  slot.version = output.version();
  slot.tensor = alias(*output.impl()).leak();
}

void fill_slots(Node& node, const Call& call, const Outputs& outputs, std::uint32_t needed) {
  int position = 0;
  for (const Save& entry : call.op.def.saves) {
    SavedTensor& slot = node.slots()[position++];
    if (!(entry.when & needed)) continue;
    switch (entry.kind) {
      case Save::Kind::input:
        if (call.has(entry.index)) save(slot, call.in(entry.index));
        break;
      case Save::Kind::shape:
        if (call.has(entry.index)) slot.tensor = shape_only(*call.in(entry.index).impl()).leak();
        break;
      case Save::Kind::output: save_output(slot, outputs[entry.index]); break;
      case Save::Kind::recomputed_output: break;
    }
  }
  for (int i = 0; i < node.shapes; ++i) {
    if (call.has(i)) node.shape_slots()[i].tensor = shape_only(*call.in(i).impl()).leak();
  }
}

/// Elementwise ops sum gradients over broadcast dimensions, and list ops split them: both need to
/// know the inputs' shapes.
bool needs_shapes(const Call& call, const Outputs& outputs) {
  if (call.op.has_lists) return true;
  if (!call.op.def.elementwise) return false;
  const IntList sizes = outputs[0].sizes();
  for (std::uint32_t i = 0; i < call.count; ++i) {
    if (!(call.in(i).sizes() == sizes)) return true;
  }
  return false;
}

void apply_op(Node& node, Tensor* output_gradients, Tensor* input_gradients) {
  GradientContext context(node, output_gradients, input_gradients);
  node.op->def.gradient->rule()(context);
}

}  // namespace

const NodeKind kOpKind = {"op", apply_op, nullptr};

void record(const Call& call, Outputs& outputs) {
  const Op& op = call.op;
  const std::size_t segment_bytes = call.segments ? op.tensor_arguments * sizeof(std::uint16_t) : 0;
  const std::size_t shapes = needs_shapes(call, outputs) ? call.count : 0;
  Node* node = new_node(kOpKind, call.count, outputs.size(),
                        static_cast<std::size_t>(op.def.saves.size()), shapes,
                        op.attrs.bytes + segment_bytes);
  node->op = &op;
  std::uint32_t needed = 0;
  for (std::uint32_t i = 0; i < call.count; ++i) {
    const Edge edge = edge_of(call.in(i));
    if (!edge.node) continue;
    retain(edge.node);
    node->edges()[i] = edge;
    needed |= 1u << (i < 31 ? i : 31);
  }
  if (op.attrs.bytes) std::memcpy(node->attrs(), call.attributes, op.attrs.bytes);
  if (segment_bytes) {
    std::memcpy(static_cast<std::byte*>(node->attrs()) + op.attrs.bytes, call.segments,
                segment_bytes);
  }
  try {
    fill_slots(*node, call, outputs, needed);
  } catch (...) {
    release(node);
    throw;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].is_floating_point()) set_history(outputs[i], node, i);
  }
  if (runtime::tl_mode & runtime::kAnomaly) remember_origin(*node);
  release(node);
}

void rebase(const Tensor& self, Tensor& result) {
  TensorImpl& impl = *self.impl();
  check<AutogradError>(
      !impl.has(TensorImpl::kIsView),
      "{}: an in-place operation that needs a gradient writes into a view; use the out-of-place "
      "operation, or change the whole tensor",
      result.impl()->node ? result.impl()->node->name() : "in-place write");
  Tensor target = self;
  set_history(target, result.impl()->node, result.impl()->output_index);
  ++impl.storage->history;
}

}  // namespace facula::autograd

namespace facula {

namespace {

using autograd::Node;
using autograd::SavedTensor;

Tensor unpack(const Node& node, const SavedTensor& slot, const char* what, std::size_t index) {
  check<AutogradError>(
      !node.released,
      "backward through {}: its saved tensors were freed by an earlier backward; pass "
      "retain_graph = true to the first call to go through a graph twice",
      node.op->name);
  check<AutogradError>(slot.tensor != nullptr,
                       "backward through {}: {} {} was not saved; this is an error in the op's "
                       "definition",
                       node.op->name, what, index);
  if (slot.tensor->storage) {
    const std::uint32_t now = slot.tensor->storage->version;
    check<AutogradError>(
        now == slot.version,
        "backward through {}: {} {} of size {} was changed in place after it was used (version {}, "
        "expected {}); use the out-of-place operation or clone() before changing it{}",
        node.op->name, what, index, slot.tensor->size_list().str(), now, slot.version,
        node.extras ? "\n" + node.extras->origin : "");
  }
  __atomic_fetch_add(&slot.tensor->references, 1, __ATOMIC_RELAXED);
  return Tensor::adopt(slot.tensor);
}

}  // namespace

Tensor GradientContext::input(std::size_t i) const {
  const int slot = i < std::size(node_.op->input_slot) ? node_.op->input_slot[i] : -1;
  if (slot >= 0) return unpack(node_, node_.slots()[slot], "input", i);
  check<AutogradError>(i < node_.shapes,
                       "backward through {}: input {} was not saved; this is an error in the op's "
                       "definition",
                       node_.op->name, i);
  return unpack(node_, node_.shape_slots()[i], "input", i);
}

Tensor GradientContext::output(std::size_t i) const {
  const int slot = node_.op->output_slot[i];
  const Save& entry = node_.op->def.saves.begin()[slot];
  if (entry.kind == Save::Kind::recomputed_output) {
    SmallVector<Tensor, 4> inputs;
    SmallVector<const Tensor*, 4> pointers;
    for (std::size_t k = 0; k < input_count(); ++k) {
      inputs.push_back(node_.op->input_slot[k] >= 0 ? input(k) : Tensor());
    }
    for (const Tensor& tensor : inputs) pointers.push_back(&tensor);
    Outputs outputs;
    runtime::dispatch(Call{*node_.op, pointers.data(), static_cast<std::uint32_t>(inputs.size()),
                           attributes()},
                      outputs);
    return std::move(outputs[i]);
  }
  Tensor result = unpack(node_, node_.slots()[slot], "output", i);
  if (!(runtime::tl_mode & runtime::kNoGrad)) {
    // For higher derivatives the output must be connected to the node that made it.
    result = alias(*result.impl());
    autograd::set_history(result, &node_, i);
  }
  return result;
}

bool GradientContext::needs(std::size_t i) const {
  const Node* next = node_.edges()[i].node;
  return next && autograd::wanted_in_sweep(*next);
}

std::size_t GradientContext::input_count() const { return node_.inputs; }

std::size_t GradientContext::list_size(std::size_t argument) const {
  const auto* segments = reinterpret_cast<const std::uint16_t*>(
      static_cast<const std::byte*>(node_.attrs()) + node_.op->attrs.bytes);
  return segments[argument];
}

const void* GradientContext::attributes() const { return node_.attrs(); }

void GradientContext::set(std::size_t i, Tensor gradient) {
  if (!node_.edges()[i].node) return;
  if (node_.shapes && node_.op->def.elementwise) {
    const TensorImpl* shape = node_.shape_slots()[i].tensor;
    if (shape && !(gradient.sizes() == shape->size_list())) {
      gradient = sum_to_size(gradient, shape->size_list());
    }
  }
  input_gradients_[i] = std::move(gradient);
}

}  // namespace facula
