// From a call to a kernel.
#pragma once

#include <span>
#include <string>

#include "ops/op_ids.h"
#include "ops/schema/call.h"
#include "runtime/op_registry.h"

namespace facula::runtime {

/// Runs an op: modes, shapes, allocation, choice of implementation, recording.
void dispatch(const Call& call, Outputs& outputs);
/// The same for an op without list arguments.
void dispatch(OpId id, std::initializer_list<const Tensor*> inputs, const void* attrs,
              Outputs& outputs);

/// Computes outputs that are there already, without checks and without recording; inputs have
/// elements. An output may be an input where the op goes through both in the same order.
void run_into(const Call& call, std::span<Tensor> outputs);

/// Computes the only output of an op over `self`, which is among its inputs, where nobody could
/// tell the difference from writing a result of its own back: no gradient is recorded, the output
/// has the size and dtype of `self`, and no other input lies in its memory. Returns false, having
/// done nothing, otherwise, and for inputs that do not fit.
bool dispatch_over(const Tensor& self, OpId id, std::initializer_list<const Tensor*> inputs,
                   const void* attrs);

/// Elementwise ops go a short way where inputs are contiguous, of one shape and dtype. Another op
/// takes the place of one that has a shortcut for the number among the inputs.
Tensor elementwise(OpId id, std::initializer_list<const Tensor*> inputs, const void* attrs);
/// As above; `reused`, one of the inputs, is given up by the caller, so its memory holds the result
/// if nobody else uses it. It is undefined then.
Tensor elementwise_reusing(OpId id, Tensor& reused, std::initializer_list<const Tensor*> inputs,
                           const void* attrs);
/// Writes the result back into `self`, inputs[0]. Throws where the result does not fit.
void elementwise_in_place(OpId id, std::initializer_list<const Tensor*> inputs, const void* attrs);

/// A number as the 0-d tensor that stands for it beside `partner`: of the same dtype if that holds
/// the value, which keeps calls on the short way, else of its own.
Tensor wrapped_number(Scalar value, const Tensor& partner);
/// The same for input `input` of an elementwise op, whose rule for numbers is asked.
Tensor operand_number(OpId id, std::size_t input, Scalar value, const Tensor& partner);

/// Gives a view of a tensor that got another history since the present one. Throws AutogradError
/// where that is not known.
void check_view_is_current(const Tensor& tensor, const char* op, const char* suffix = "");
/// Throws AutogradError where a recorded history forbids writing to the tensor in place, ShapeError
/// where its elements share memory places. Messages begin with `op` and `suffix`.
void check_in_place(const Tensor& written, const char* op, const char* suffix = "");
/// Counts an in-place write, so that a backward pass needing the old values can tell.
void count_write(const Tensor& written);

/// How upper layers take part in a call. Set once by their owners.
struct Hooks {
  /// Records a differentiable call on the tape.
  void (*record)(const Call& call, std::span<Tensor> outputs) = nullptr;
  /// Gives `self` the history of `result`, whose elements it holds; undefined for none.
  void (*rebase)(const Tensor& self, const Tensor& result) = nullptr;
  /// The operand that a recorded in-place call reads in place of the written tensor.
  Tensor (*before_write)(const Tensor& self, bool keep_values) = nullptr;
  /// True if somebody asked for the tensor's gradient: a hook, retain_grad().
  bool (*observed)(const Tensor& tensor) = nullptr;
  /// True if the tensor is the first result of a recorded call of the op.
  bool (*made_by)(const Tensor& tensor, OpId id) = nullptr;
  /// The name of the op that made a tensor, as printing shows it ("AddBackward0").
  std::string (*history_name)(const Tensor& tensor) = nullptr;
  /// Takes over a call under kTracing or kAutocast, clearing the bit meanwhile. Nothing installs
  /// these yet.
  void (*trace)(const Call& call, Outputs& outputs) = nullptr;
  void (*autocast)(const Call& call, Outputs& outputs) = nullptr;
  /// Brackets a call under kProfiling. Nothing installs these yet.
  void (*profile_begin)(const Call& call) = nullptr;
  void (*profile_end)(const Call& call, const Outputs& outputs) = nullptr;
};
extern Hooks hooks;

/// Replaces the static order of an implementation list by a measured choice. Returns the index of
/// the implementation to run; one past the end leaves the choice, or the error, to the order.
class Selector {
 public:
  virtual ~Selector() = default;
  virtual std::size_t select(const std::vector<Implementation>& list, const KernelArgs& args) = 0;
};
/// Null restores the static order. The selector must outlive its use.
void set_selector(Selector* selector);

}  // namespace facula::runtime
