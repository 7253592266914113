#include <facula/autograd.h>

#include <algorithm>

#include "autograd/anomaly.h"
#include "autograd/engine.h"
#include "autograd/saved.h"
#include "base/check.h"
#include "core/promotion.h"
#include "runtime/dispatch.h"
#include "runtime/mode.h"

namespace facula::autograd {

/// What stands behind the slots of a custom function's node.
class CustomNode {
 public:
  CustomNode(std::string name, FunctionBackward backward)
      : name_(std::move(name)),
        kind_{name_.c_str(), apply, [](Node& node) noexcept { of(node).~CustomNode(); }},
        backward_(std::move(backward)) {}
  CustomNode(const CustomNode&) = delete;
  CustomNode& operator=(const CustomNode&) = delete;

  static Node* record(std::string name, FunctionBackward backward, FunctionContext& context,
                      const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs);
  static std::vector<Tensor> saved(const Node& node);
  static void set_needs(FunctionContext& context, std::vector<bool> needs) {
    context.needs_ = std::move(needs);
  }
  static void check_saved(const FunctionContext& context, const std::string& name);
  static std::vector<bool> differentiable(const FunctionContext& context,
                                          const std::vector<Tensor>& outputs);

 private:
  /// How a slot is filled: from an output (its index), otherwise, or not at all.
  static constexpr int kNoOutput = -1;
  static constexpr int kUndefined = -2;

  static CustomNode& of(Node& node) { return *static_cast<CustomNode*>(node.attrs()); }
  static void apply(Node& node, Tensor* output_gradients, Tensor* input_gradients);
  static void fill(Node& node, const FunctionContext& context, const std::vector<Tensor>& outputs);

  std::string name_;
  NodeKind kind_;
  FunctionBackward backward_;
  std::any saved_data_;
  std::vector<int> sources_;
};
static_assert(alignof(CustomNode) <= alignof(std::max_align_t));

bool FunctionContext::needs_input_grad(std::size_t i) const {
  check<IndexError>(i < needs_.size(), "needs_input_grad: input {} of a function of {} tensors", i,
                    needs_.size());
  return needs_[i];
}

void CustomNode::check_saved(const FunctionContext& context, const std::string& name) {
  constexpr std::size_t kMost = UINT16_MAX;
  check<AutogradError>(context.saved_.size() <= kMost,
                       "{}: {} tensors to save for backward; at most {} can be, stack() some of "
                       "them",
                       name, context.saved_.size(), kMost);
}

std::vector<bool> CustomNode::differentiable(const FunctionContext& context,
                                             const std::vector<Tensor>& outputs) {
  std::vector<bool> result;
  for (const Tensor& output : outputs) {
    const auto is_output = [&](const Tensor& tensor) { return tensor.is_same(output); };
    result.push_back(output.is_floating_point() &&
                     std::ranges::none_of(context.non_differentiable_, is_output));
  }
  return result;
}

void CustomNode::fill(Node& node, const FunctionContext& context,
                      const std::vector<Tensor>& outputs) {
  for (std::size_t slot = 0; slot < context.saved_.size(); ++slot) {
    const Tensor& tensor = context.saved_[slot];
    int source = tensor.defined() ? kNoOutput : kUndefined;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (tensor.defined() && tensor.is_same(outputs[i])) source = static_cast<int>(i);
    }
    of(node).sources_.push_back(source);
    if (source == kNoOutput) save(node, slot, tensor);
    if (source >= 0) save_output(node, slot, tensor);
  }
}

Node* CustomNode::record(std::string name, FunctionBackward backward, FunctionContext& context,
                         const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
  static const NodeKind kUnnamed = {"custom function", apply, nullptr};
  Node* node = new_node(kUnnamed, inputs.size(), outputs.size(), context.saved_.size(),
                        inputs.size(), sizeof(CustomNode));
  auto* payload = new (node->attrs()) CustomNode(std::move(name), std::move(backward));
  node->kind = &payload->kind_;
  try {
    payload->saved_data_ = std::move(context.saved_data);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined()) continue;
      node->shape_slots()[i].tensor = shape_only(*inputs[i].impl()).leak();
      const Edge edge = edge_of(inputs[i]);
      if (edge.node) retain(edge.node);
      node->edges()[i] = edge;
    }
    fill(*node, context, outputs);
  } catch (...) {
    release(node);
    throw;
  }
  return node;
}

std::vector<Tensor> CustomNode::saved(const Node& constant) {
  Node& node = const_cast<Node&>(constant);
  std::vector<Tensor> tensors;
  for (std::size_t slot = 0; slot < of(node).sources_.size(); ++slot) {
    const int source = of(node).sources_[slot];
    Tensor tensor;
    if (source != kUndefined) tensor = unpack(node, node.slots()[slot], "saved tensor", slot);
    if (source >= 0 && AutoGradMode::is_enabled() && tensor.is_floating_point()) {
      tensor = alias(*tensor.impl());
      set_history(tensor, &node, static_cast<std::size_t>(source));
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void CustomNode::apply(Node& node, Tensor* output_gradients, Tensor* input_gradients) {
  const CustomNode& self = of(node);
  FunctionContext context;
  context.node_ = &node;
  context.saved_data = self.saved_data_;
  for (int i = 0; i < node.inputs; ++i) {
    const Node* next = node.edges()[i].node;
    context.needs_.push_back(next && wanted_in_sweep(*next));
  }
  std::vector<Tensor> gradients = self.backward_(
      context, std::vector<Tensor>(output_gradients, output_gradients + node.outputs));
  check<AutogradError>(gradients.size() == node.inputs,
                       "{}: backward returned {} gradients for {} inputs; return an undefined "
                       "tensor for inputs without one",
                       self.name_, gradients.size(), node.inputs);
  for (int i = 0; i < node.inputs; ++i) {
    const TensorImpl* shape = node.shape_slots()[i].tensor;
    Tensor& gradient = gradients[i];
    if (!gradient.defined() || !shape || !node.edges()[i].node) continue;
    check<ShapeError>(gradient.sizes() == shape->size_list(),
                      "{}: backward returned a gradient of size {} for input {} of size {}; return "
                      "one of the input's size, summed where the input was broadcast",
                      self.name_, gradient.sizes(), i, shape->size_list());
    check<DTypeError>(gradient.is_floating_point(),
                      "{}: backward returned a {} gradient for input {} of size {}; gradients are "
                      "floating point",
                      self.name_, name_of(gradient.dtype()), i, shape->size_list());
    const DType dtype = gradient_dtype(shape->dtype);
    input_gradients[i] = gradient.dtype() == dtype ? std::move(gradient) : gradient.to(dtype);
  }
}

void FunctionContext::save_for_backward(std::vector<Tensor> tensors) {
  check<AutogradError>(node_ == nullptr,
                       "save_for_backward: called in backward; call it in forward");
  saved_ = std::move(tensors);
}

void FunctionContext::mark_non_differentiable(std::vector<Tensor> outputs) {
  check<AutogradError>(node_ == nullptr,
                       "mark_non_differentiable: called in backward; call it in forward");
  non_differentiable_ = std::move(outputs);
}

std::vector<Tensor> FunctionContext::saved_tensors() const {
  return node_ ? CustomNode::saved(*node_) : saved_;
}

namespace {

/// Writes into it count as writes into a view: they would change what it was made of. Its history
/// is the function's, which that does not know.
Tensor view_of_whole(const Tensor& whole) {
  Tensor view = alias(*whole.impl());
  set_view_of(whole, *view.impl());
  view.impl()->base = Tensor();
  return view;
}

}  // namespace

std::vector<Tensor> apply_function(std::string name, const std::vector<Tensor>& inputs,
                                   const FunctionForward& forward, FunctionBackward backward) {
  check<ValueError>(forward != nullptr && backward != nullptr,
                    "{}: forward or backward is empty; pass a function for each", name);
  FunctionContext context;
  std::vector<bool> needs;
  bool recording = false;
  for (const Tensor& input : inputs) {
    needs.push_back(AutoGradMode::is_enabled() && input.requires_grad());
    if (needs.back()) runtime::check_view_is_current(input, name.c_str());
    recording |= needs.back();
  }
  CustomNode::set_needs(context, std::move(needs));
  std::vector<Tensor> outputs;
  {
    NoGradGuard no_grad;
    outputs = forward(context);
  }
  if (!recording) {
    // What has a history outside, an input for example, keeps it to itself.
    for (Tensor& output : outputs) {
      if (output.defined() && output.requires_grad()) output = output.detach();
    }
    return outputs;
  }
  constexpr std::size_t kMostInputs = UINT16_MAX, kMostOutputs = UINT8_MAX + 1;
  CustomNode::check_saved(context, name);
  check<AutogradError>(inputs.size() <= kMostInputs && outputs.size() <= kMostOutputs,
                       "{}: {} inputs and {} outputs; at most {} and {} can be recorded, stack() "
                       "some of them",
                       name, inputs.size(), outputs.size(), kMostInputs, kMostOutputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check<AutogradError>(outputs[i].defined(), "{}: output {} is undefined", name, i);
  }
  const std::vector<bool> differentiable = CustomNode::differentiable(context, outputs);
  // An output that exists outside, an input for example, keeps its own history.
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    bool fresh = outputs[i].impl()->node == nullptr;
    for (std::size_t k = 0; k < i; ++k) fresh &= !outputs[i].is_same(outputs[k]);
    for (const Tensor& input : inputs) fresh &= !outputs[i].is_same(input);
    if (!fresh) outputs[i] = view_of_whole(outputs[i]);
  }
  Node* node = CustomNode::record(std::move(name), std::move(backward), context, inputs, outputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (differentiable[i]) set_history(outputs[i], node, i);
  }
  if (runtime::tl_mode & runtime::kAnomaly) remember_origin(*node);
  release(node);
  return outputs;
}

}  // namespace facula::autograd
