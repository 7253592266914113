// Recording calls on the tape, and what gradient rules see of a recorded call.
#include <cstring>

#include "autograd/anomaly.h"
#include "autograd/engine.h"
#include "autograd/node.h"
#include "autograd/record.h"
#include "autograd/saved.h"
#include "base/check.h"
#include "runtime/dispatch.h"
#include "runtime/mode.h"

namespace facula::autograd {
namespace {

void fill_slots(Node& node, const Call& call, std::span<const Tensor> outputs,
                std::uint32_t needed) {
  std::size_t next = 0;
  for (const Save& entry : call.op.def.saves) {
    const std::size_t slot = next++;
    if (!(entry.when & needed)) continue;
    if (entry.given >= 0 && !call.has(static_cast<std::size_t>(entry.given))) continue;
    switch (entry.kind) {
      case Save::Kind::input:
        if (call.has(entry.index)) save(node, slot, call.in(entry.index), &call);
        break;
      case Save::Kind::shape:
        if (call.has(entry.index)) {
          node.slots()[slot].tensor = shape_only(*call.in(entry.index).impl()).leak();
        }
        break;
      case Save::Kind::output: save_output(node, slot, outputs[entry.index]); break;
    }
  }
  for (int i = 0; i < node.shapes; ++i) {
    if (call.has(i)) node.shape_slots()[i].tensor = shape_only(*call.in(i).impl()).leak();
  }
}

/// Elementwise ops sum gradients over broadcast dimensions, and list ops split them: both need to
/// know the inputs' shapes.
bool needs_shapes(const Call& call, std::span<const Tensor> outputs) {
  if (call.op.has_lists) return true;
  if (!call.op.def.elementwise) return false;
  const TensorImpl& output = *outputs[0].impl();
  for (std::uint32_t i = 0; i < call.count; ++i) {
    const TensorImpl& input = *call.in(i).impl();
    if (input.requires_grad() && !same_sizes(input, output)) return true;
  }
  return false;
}

void apply_op(Node& node, Tensor* output_gradients, Tensor* input_gradients) {
  GradientContext context(node, output_gradients, input_gradients);
  node.op->def.gradient->rule()(context);
}

/// retain_grad() belongs to the tensor, which goes on with the history of `result`.
void move_retained(const TensorImpl& self, const TensorImpl& result) {
  const NodeExtras::Retained* old = retained_of(self);
  if (!old) return;
  extras_of(*result.node).retained.push_back({result.output_index, old->gradient});
  std::vector<NodeExtras::Retained>& entries = self.node->extras->retained;
  entries.erase(entries.begin() + (old - entries.data()));
}

}  // namespace

const NodeKind kOpKind = {"op", apply_op, nullptr};

void record(const Call& call, std::span<Tensor> outputs) {
  const Op& op = call.op;
  const std::size_t segment_bytes = call.segments ? op.tensor_arguments * sizeof(std::uint16_t) : 0;
  const std::size_t shapes = needs_shapes(call, outputs) ? call.count : 0;
  Node* node =
      new_node(kOpKind, call.count, outputs.size(), static_cast<std::size_t>(op.def.saves.size()),
               shapes, op.attrs.bytes + segment_bytes);
  node->op = &op;
  std::uint32_t needed = 0;
  Edge* edges = node->edges();
  for (std::uint32_t i = 0; i < call.count; ++i) {
    const Edge edge = edge_of(call.in(i));
    if (!edge.node) continue;
    retain(edge.node);
    edges[i] = edge;
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
  if (runtime::tl_mode & runtime::kAnomaly) remember_origin(*node);
  // The last differentiable output takes over the reference the node was made with.
  Tensor* last = nullptr;
  for (Tensor& output : outputs) {
    if (!facula::is_floating_point(output.impl()->dtype)) continue;
    if (last) set_history(*last, node, static_cast<std::size_t>(last - outputs.data()));
    last = &output;
  }
  if (!last) return release(node);
  adopt_history(*last, node, static_cast<std::size_t>(last - outputs.data()));
}

void rebase(const Tensor& self, const Tensor& result) {
  TensorImpl& impl = *self.impl();
  if (result.requires_grad()) {
    part_from_saved(impl, *result.impl()->node);
    move_retained(impl, *result.impl());
    Tensor target = self;
    set_history(target, result.impl()->node, result.impl()->output_index);
  } else {
    drop_history(impl);
    impl.output_index = 0;
    impl.set(TensorImpl::kRequiresGrad, false);
  }
}

Tensor before_write(const Tensor& self, bool keep_values) {
  const TensorImpl& impl = *self.impl();
  Tensor operand = alias(impl);
  if (keep_values) operand = to_copy(operand);
  if (impl.requires_grad()) set_history(operand, impl.node, impl.output_index);
  return operand;
}

bool observed(const Tensor& tensor) {
  const Node* node = tensor.impl()->node;
  return node && node->extras;
}

bool made_by(const Tensor& tensor, OpId id) {
  const TensorImpl& impl = *tensor.impl();
  return impl.node && impl.output_index == 0 && impl.node->op && impl.node->op->id == id;
}

std::string history_name(const Tensor& tensor) {
  std::string name;
  bool word_begins = true;
  for (const char* c = tensor.impl()->node->name(); *c; ++c) {
    if (*c != '_') {
      name += word_begins && *c >= 'a' && *c <= 'z' ? static_cast<char>(*c - 'a' + 'A') : *c;
    }
    word_begins = *c == '_';
  }
  return name + "Backward0";
}

}  // namespace facula::autograd

namespace facula {

using autograd::Node;
using autograd::unpack;

Tensor GradientContext::take_sum(std::size_t i) {
  const autograd::Edge& edge = node_.edges()[i];
  if (!edge.node || higher_order() || runtime::tl_mode & runtime::kAnomaly) return {};
  Tensor* sum = autograd::sum_in_sweep(edge);
  if (!sum || !sum->defined() || !is_dead(*sum->impl())) return {};
  // A sum's gradient is one number for all elements: broadcast, not dense.
  const bool alike = same_sizes(*sum->impl(), *input(i).impl()) && sum->dtype() == grad().dtype() &&
                     is_dense(*sum->impl());
  return alike ? std::move(*sum) : Tensor();
}

Tensor GradientContext::input(std::size_t i) const {
  const int slot = i < std::size(node_.op->input_slot) ? node_.op->input_slot[i] : -1;
  if (slot >= 0) return unpack(node_, node_.slots()[slot], "input", i);
  check<AutogradError>(i < node_.shapes,
                       "backward through {}: input {} was not saved; this is an error in the op's "
                       "definition",
                       node_.op->name, i);
  return unpack(node_, node_.shape_slots()[i], "input", i);
}

bool GradientContext::higher_order() const { return !(runtime::tl_mode & runtime::kNoGrad); }

bool GradientContext::has_input(std::size_t i) const {
  const int slot = node_.op->input_slot[i];
  return node_.released || (slot >= 0 && node_.slots()[slot].tensor);
}

Tensor GradientContext::output(std::size_t i) const {
  const int slot = node_.op->output_slot[i];
  Tensor result = unpack(node_, node_.slots()[slot], "output", i);
  if (higher_order()) {
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
    if (shape && gradient.defined() && !same_sizes(*gradient.impl(), *shape)) {
      gradient = sum_to_size(gradient, shape->size_list());
    }
  }
  input_gradients_[i] = std::move(gradient);
}

}  // namespace facula
