#include <facula/autograd.h>

#include "autograd/checkpoint.h"
#include "base/check.h"
#include "runtime/deferred.h"
#include "runtime/mode.h"

namespace facula::autograd {

thread_local Segment::Run Segment::current;

class Segment::RunScope {
 public:
  explicit RunScope(Run run) : outer_(std::exchange(current, run)) {}
  ~RunScope() { current = outer_; }
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

 private:
  Run outer_;
};

Segment::Value::Value(const Tensor& saved)
    : tensor(alias(*saved.impl())), version(saved.version()) {}

Segment::Segment(Function function, const std::vector<Tensor>& inputs)
    : function_(std::make_shared<const Function>(std::move(function))),
      mode_((runtime::tl_mode | runtime::kCheckpoint) & ~std::uint32_t{runtime::kAnomaly}) {
  for (const Tensor& tensor : inputs) inputs_.push_back(keep(tensor));
}

Segment::Input Segment::keep(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  Input input;
  input.tensor = alias(*tensor.impl());
  input.version = tensor.version();
  input.requires_grad = tensor.requires_grad();
  if (!current.segment) return input;
  if (current.values) {
    current.values->emplace_back(tensor);
    return input;
  }
  input.number = current.segment->count_++;
  if (!tensor.impl()->has(TensorImpl::kIsLeafVariable)) {
    input.outer = current.segment->shared_from_this();
    input.tensor = Tensor();
  }
  return input;
}

std::vector<Tensor> Segment::run(const std::vector<Tensor>& inputs) {
  const RunScope scope({.segment = this});
  const runtime::ModeGuard mode(runtime::kCheckpoint);
  const RandomLogScope random(random_, RandomLogScope::Mode::record);
  std::vector<Tensor> outputs = (*function_)(inputs);
  random_.complete = true;
  values_.clear();  // if there was a backward pass inside
  return outputs;
}

bool Segment::capture(Node& node, std::size_t slot, const Tensor& tensor, bool droppable) {
  if (current.values) {
    current.values->emplace_back(tensor);
    return false;
  }
  const std::size_t number = current.segment->count_++;
  if (!droppable) return false;
  NodeExtras& extras = extras_of(node);
  extras.segment = current.segment->shared_from_this();
  extras.segment_numbers.resize(node.saved, -1);
  extras.segment_numbers[slot] = static_cast<std::int64_t>(number);
  return true;
}

std::int64_t Segment::number_of(const Node& node, const SavedTensor& slot) {
  const auto place = static_cast<std::size_t>(&slot - const_cast<Node&>(node).slots());
  const std::vector<std::int64_t>& numbers = node.extras->segment_numbers;
  return place < numbers.size() ? numbers[place] : -1;
}

Tensor Segment::recompute(const Node& node, const SavedTensor& slot) {
  Tensor value =
      node.extras->segment->value(static_cast<std::size_t>(number_of(node, slot)), node.name());
  const TensorImpl& original = *slot.tensor;
  check<AutogradError>(
      value.dtype() == original.dtype && value.sizes() == original.size_list(),
      "checkpoint: {} computed a {} tensor of size {} the second time, {} {} the first; a segment "
      "must compute the same whenever it runs",
      node.name(), name_of(value.dtype()), value.sizes(), name_of(original.dtype),
      original.size_list());
  if (original.node) set_history(value, original.node, original.output_index);
  return value;
}

void Segment::release_values(Node& node) noexcept {
  Segment& segment = *node.extras->segment;
  const std::lock_guard lock(segment.mutex_);
  std::vector<Value>& values = segment.values_;
  for (std::int64_t number : node.extras->segment_numbers) {
    if (number >= 0 && static_cast<std::size_t>(number) < values.size()) {
      values[number].tensor = Tensor();
    }
  }
}

Tensor Segment::value(std::size_t number, const char* reader) {
  const std::lock_guard lock(mutex_);
  if (number >= values_.size()) run_again();
  const Value& value = values_[number];
  check<AutogradError>(value.tensor.version() == value.version,
                       "backward through {}: a value of size {} of its checkpointed segment was "
                       "changed in place after it was used; use the out-of-place operation or copy "
                       "it before changing it",
                       reader, value.tensor.sizes());
  return alias(*value.tensor.impl());
}

Tensor Segment::restore(const Input& input, std::size_t index) const {
  if (input.outer) {
    Tensor value = input.outer->value(input.number, "checkpoint");
    return input.requires_grad ? value.requires_grad_() : value;
  }
  if (!input.tensor.defined()) return {};
  check<AutogradError>(input.tensor.version() == input.version,
                       "checkpoint: input {} of size {} was changed in place, in the segment or "
                       "after it; copy it before changing it",
                       index, input.tensor.sizes());
  Tensor value = alias(*input.tensor.impl());
  return input.requires_grad ? value.requires_grad_() : value;
}

void Segment::run_again() {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < inputs_.size(); ++i) inputs.push_back(restore(inputs_[i], i));
  std::vector<Value> values;
  values.reserve(count_);
  const std::shared_ptr<const Function> function = function_;  // should a run inside release it
  {
    const RandomLogScope random(random_, RandomLogScope::Mode::replay);
    const runtime::ModeGuard mode(mode_, ~mode_);
    const RunScope scope({.segment = this, .values = &values});
    const runtime::NoDeferral outside_modules;  // as in the first run
    (*function)(inputs);
  }
  // A backward pass inside the segment wants values of what has run so far. What comes behind it
  // has no numbers yet, neither for values nor for random ones.
  if (!random_.complete && values.size() > count_)
    values.erase(values.begin() + count_, values.end());
  check<AutogradError>(values.size() == count_,
                       "checkpoint: the segment saved {} tensors the first time and {} the second; "
                       "a segment must compute the same whenever it runs",
                       count_, values.size());
  values_ = std::move(values);
  if (random_.complete) release_inputs();
}

void Segment::release_inputs() noexcept {
  for (const Input& input : inputs_) {
    if (!input.outer) continue;
    const std::lock_guard lock(input.outer->mutex_);
    input.outer->values_[input.number].tensor = Tensor();
  }
  inputs_.clear();
  function_.reset();
}

std::vector<Tensor> checkpoint(Segment::Function segment, const std::vector<Tensor>& inputs) {
  check<ValueError>(segment != nullptr, "checkpoint: the segment is empty; pass a function");
  if (runtime::tl_mode & runtime::kNoGrad) return segment(inputs);
  return std::make_shared<Segment>(std::move(segment), inputs)->run(inputs);
}

}  // namespace facula::autograd
