#include <facula/autograd.h>

#include "autograd/checkpoint.h"
#include "base/check.h"
#include "runtime/mode.h"

namespace facula::autograd {
namespace {

/// The segment running on this thread; `values` collects the saves of a second run.
struct Run {
  Segment* segment = nullptr;
  std::vector<Tensor>* values = nullptr;
};
thread_local Run current;

class RunScope {
 public:
  explicit RunScope(Run run) : outer_(std::exchange(current, run)) {}
  ~RunScope() { current = outer_; }
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

 private:
  Run outer_;
};

}  // namespace

Segment::Segment(Function function, const std::vector<Tensor>& inputs)
    : function_(std::move(function)),
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
    current.values->push_back(input.tensor);
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
  std::vector<Tensor> outputs = function_(inputs);
  random_.complete = true;
  values_.clear();  // if there was a backward pass inside
  return outputs;
}

bool Segment::capture(Node& node, std::size_t slot, const Tensor& tensor, bool droppable) {
  if (current.values) {
    current.values->push_back(alias(*tensor.impl()));
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
  const Tensor& value =
      node.extras->segment->value(static_cast<std::size_t>(number_of(node, slot)));
  const TensorImpl& original = *slot.tensor;
  check<AutogradError>(
      value.dtype() == original.dtype && value.sizes() == original.size_list(),
      "checkpoint: {} computed a {} tensor of size {} the second time, {} {} the first; a segment "
      "must compute the same whenever it runs",
      node.name(), name_of(value.dtype()), value.sizes(), name_of(original.dtype),
      original.size_list());
  Tensor result = alias(*value.impl());
  if (original.node) set_history(result, original.node, original.output_index);
  return result;
}

void Segment::release_values(Node& node) noexcept {
  for (std::int64_t number : node.extras->segment_numbers) {
    std::vector<Tensor>& values = node.extras->segment->values_;
    if (number >= 0 && static_cast<std::size_t>(number) < values.size()) values[number] = Tensor();
  }
}

const Tensor& Segment::value(std::size_t number) {
  if (number >= values_.size()) run_again();
  return values_[number];
}

Tensor Segment::restore(const Input& input, std::size_t index) const {
  if (input.outer) {
    Tensor value = alias(*input.outer->value(input.number).impl());
    return input.requires_grad ? value.requires_grad_() : value;
  }
  if (!input.tensor.defined()) return {};
  check<AutogradError>(input.tensor.version() == input.version,
                       "checkpoint: input {} of size {} was changed in place after the segment "
                       "used it; copy it before changing it",
                       index, input.tensor.sizes());
  Tensor value = alias(*input.tensor.impl());
  return input.requires_grad ? value.requires_grad_() : value;
}

void Segment::run_again() {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < inputs_.size(); ++i) inputs.push_back(restore(inputs_[i], i));
  std::vector<Tensor> values;
  values.reserve(count_);
  {
    const RandomLogScope random(random_, RandomLogScope::Mode::replay);
    const runtime::ModeGuard mode(mode_, ~mode_);
    const RunScope scope({.segment = this, .values = &values});
    function_(inputs);
  }
  // A backward pass inside the segment wants values of what has run so far. What comes behind it
  // has no numbers yet, neither for values nor for random ones.
  if (!random_.complete && values.size() > count_) values.resize(count_);
  check<AutogradError>(values.size() == count_,
                       "checkpoint: the segment saved {} tensors the first time and {} the second; "
                       "a segment must compute the same whenever it runs",
                       count_, values.size());
  values_ = std::move(values);
}

std::vector<Tensor> checkpoint(Segment::Function segment, const std::vector<Tensor>& inputs) {
  check<ValueError>(segment != nullptr, "checkpoint: the segment is empty; pass a function");
  if (runtime::tl_mode & runtime::kNoGrad) return segment(inputs);
  return std::make_shared<Segment>(std::move(segment), inputs)->run(inputs);
}

}  // namespace facula::autograd
