// A checkpointed part of the forward pass.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "autograd/node.h"
#include "ops/schema/random.h"

namespace facula::autograd {

/// While a segment runs, its nodes save no tensors. Each save gets a number instead; when backward
/// asks for the first of them, the segment runs again and its saves, which come in the same order,
/// provide the values. The nodes recorded by the first run stay in place, so gradients, hooks,
/// partial gradients and higher derivatives work as without checkpointing. Segments may nest: the
/// inputs of an inner one are values of the outer one. Backward passes of several threads may want
/// the same values: the first runs the segment, the others wait.
class Segment : public std::enable_shared_from_this<Segment> {
 public:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

  Segment(Function function, const std::vector<Tensor>& inputs);
  /// The first run.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);

  /// Called under kCheckpoint for every tensor to save. If `droppable`, true tells that the first
  /// run is on, so that the tensor need not be kept. Every save is counted, dropped or not.
  static bool capture(Node& node, std::size_t slot, const Tensor& tensor, bool droppable);
  /// True if the slot's value was dropped.
  static bool captured(const Node& node, const SavedTensor& slot) {
    return node.extras && node.extras->segment && number_of(node, slot) >= 0;
  }
  /// The value of a dropped slot.
  static Tensor recompute(const Node& node, const SavedTensor& slot);
  /// Gives up the recomputed values of a node.
  static void release_values(Node& node) noexcept;

 private:
  /// A tensor the segment starts from: kept, or a value of the enclosing segment.
  struct Input {
    Tensor tensor;
    std::uint32_t version = 0;
    std::shared_ptr<Segment> outer;
    std::size_t number = 0;
    bool requires_grad = false;
  };
  /// What a second run saved, and its write count then.
  struct Value {
    explicit Value(const Tensor& saved);
    Tensor tensor;
    std::uint32_t version;
  };
  /// The segment running on a thread; `values` collects the saves of a second run.
  struct Run {
    Segment* segment = nullptr;
    std::vector<Value>* values = nullptr;
  };
  class RunScope;
  static thread_local Run current;

  static std::int64_t number_of(const Node& node, const SavedTensor& slot);
  Input keep(const Tensor& tensor);
  Tensor restore(const Input& input, std::size_t index) const;
  /// Value `number`, for the gradient of `reader`.
  Tensor value(std::size_t number, const char* reader);
  void run_again();
  /// Gives up what only another run would need.
  void release_inputs() noexcept;

  std::shared_ptr<const Function> function_;
  std::vector<Input> inputs_;
  std::uint32_t mode_;
  RandomLog random_;
  std::size_t count_ = 0;      ///< saves of the first run, so far
  std::vector<Value> values_;  ///< of a second run; empty before
  /// Guards what a second run changes. A thread takes those of inner segments first, and the same
  /// one again where a backward pass inside the segment wants its values.
  std::recursive_mutex mutex_;
};

}  // namespace facula::autograd
