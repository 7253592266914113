#include "autograd/recipe.h"

#include "autograd/saved.h"
#include "ops/attrs/batch_norm_apply.h"
#include "ops/attrs/batch_norm_relu.h"
#include "ops/attrs/conv2d.h"
#include "runtime/deferred.h"

namespace facula::autograd {
namespace {

/// Smaller tensors are kept: they cost little.
constexpr std::int64_t kFewestElements = 1 << 15;

/// The gradient of a convolution's weights that takes so many multiply-adds per element of the
/// input takes several times as long as normalizing that once more.
constexpr std::int64_t kFewestProducts = 128;

/// True if `consumer` is worth it: with stride 1, every element meets each weight of its channel.
bool outweighs_normalizing(const Call& consumer) {
  if (consumer.op.id != OpId::conv2d) return false;
  const Tensor& weight = consumer.in(1);
  const std::int64_t channels = weight.size(1) * consumer.attrs<ops::conv2d_attrs>().groups;
  return weight.numel() >= kFewestProducts * channels;
}

/// A tensor that the node keeps, or nothing if the op was called without it.
Tensor kept(Node& node, std::int8_t slot) {
  const SavedTensor& saved = node.slots()[slot];
  return saved.tensor ? unpack(node, saved, "input", 0).detach() : Tensor();
}

/// True if all that the node keeps is there and as it was, and nobody can change it unnoticed.
bool intact(Node& node) {
  if (node.released) return false;
  for (int i = 0; i < node.saved; ++i) {
    const SavedTensor& saved = node.slots()[i];
    if (!saved.tensor) continue;
    const Storage* storage = saved.tensor->storage;
    if (!storage || storage->version != saved.version || storage->is_exposed()) return false;
  }
  return true;
}

}  // namespace

Tensor recipe(const Call& consumer, const Tensor& input) {
  const TensorImpl& impl = *input.impl();
  Node* maker = impl.node;
  if (!outweighs_normalizing(consumer)) return {};
  if (!maker || !maker->op || maker->op->id != OpId::batch_norm_relu) return {};
  if (impl.output_index != 0 || impl.numel < kFewestElements) return {};
  if (!impl.storage || impl.storage->version != 0 || impl.storage->is_exposed()) return {};
  const Op& op = *maker->op;
  // With a residual, which is not kept, the node keeps the result itself.
  if (maker->slots()[op.output_slot[0]].tensor || !intact(*maker)) return {};
  const auto& attrs = *static_cast<const ops::batch_norm_relu_attrs*>(maker->attrs());
  runtime::KeptCall normalize(OpId::batch_norm_apply,
                              {kept(*maker, op.input_slot[0]), kept(*maker, op.output_slot[1]),
                               kept(*maker, op.output_slot[2]), kept(*maker, op.input_slot[1]),
                               kept(*maker, op.input_slot[2]), Tensor()},
                              ops::batch_norm_apply_attrs{.relu = true, .cap = attrs.cap});
  Tensor result = runtime::defer(impl.size_list(), impl.stride_list(), impl.dtype,
                                 {.values = std::move(normalize), .outlives_scope = true});
  // For higher derivatives.
  set_history(result, maker, 0);
  return result;
}

}  // namespace facula::autograd
