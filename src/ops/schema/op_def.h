// The definition of an op: everything that is true of it, in one place.
#pragma once

#include <concepts>
#include <cstdint>

#include <facula/tensor.h>

#include "base/check.h"
#include "ops/op_ids.h"
#include "ops/schema/attrs.h"
#include "ops/schema/call.h"
#include "ops/schema/samples.h"

namespace facula {

/// A field without default: leaving it out of an aggregate does not compile.
template <class T>
class Required {
 public:
  template <class U>
  requires std::convertible_to<U, T>
  constexpr Required(U&& value) : value_(static_cast<U&&>(value)) {}
  constexpr operator const T&() const { return value_; }
  constexpr const T& operator*() const { return value_; }
  constexpr const T* operator->() const { return &value_; }

 private:
  T value_;
};

// --- Shapes --------------------------------------------------------------------------------------

struct OutputSpec {
  DType dtype = kFloat32;
  Dims sizes;
  Dims strides;
  std::int64_t offset = 0;
  bool view = false;
};

/// What a shape rule works with: reads the inputs, checks them, announces the outputs.
class Infer {
 public:
  Infer(const Call& call, SmallVector<OutputSpec, 4>& outputs) : call_(call), outputs_(outputs) {}

  const Call& call() const { return call_; }
  const Tensor& in(std::size_t i) const { return call_.in(i); }
  bool has(std::size_t i) const { return call_.has(i); }
  std::span<const Tensor* const> list(std::size_t argument) const { return call_.list(argument); }
  template <class A>
  const A& attrs() const {
    return call_.attrs<A>();
  }
  const char* op_name() const;

  /// A new dense output.
  void out(DType dtype, IntList sizes, MemoryFormat format = kContiguous);
  /// A new output with explicit strides without gaps.
  void out_strided(DType dtype, IntList sizes, IntList strides);
  /// An output sharing the elements of input 0; offset in elements from the storage's start.
  void view(IntList sizes, IntList strides, std::int64_t offset);

 private:
  const Call& call_;
  SmallVector<OutputSpec, 4>& outputs_;
};

using InferRule = void (*)(Infer&);

// --- Gradients -----------------------------------------------------------------------------------

namespace autograd {
struct Node;
struct GradientState;
}  // namespace autograd

/// What a gradient rule works with. Rules call ordinary ops, so one rule serves the eager tape,
/// higher derivatives and, once there is a tracer, whole-graph differentiation.
class GradientContext {
 public:
  GradientContext(autograd::Node& node, Tensor* output_gradients, Tensor* input_gradients)
      : node_(node), output_gradients_(output_gradients), input_gradients_(input_gradients) {}

  /// Gradient of the loss with respect to output `i`; undefined if that output was not used.
  const Tensor& grad(std::size_t i = 0) const { return output_gradients_[i]; }
  /// The same for the last time a rule uses it: a result may take over its memory.
  Tensor take_grad(std::size_t i = 0) { return std::move(output_gradients_[i]); }
  /// What has been collected of input `i`'s gradient if a rule may add to it in place and deliver
  /// that, instead of a tensor that is 0 but for a few elements. Undefined if there is nothing yet,
  /// if others know its elements, or if gradients are recorded or looked at one by one. Input `i`
  /// must be saved, or its shape.
  Tensor take_sum(std::size_t i);
  /// Saved input `i`, or its shape and dtype only if saved with `shape_of`. Throws AutogradError if
  /// it has been released or changed in place since.
  Tensor input(std::size_t i) const;
  /// False if optional input `i` was absent.
  bool has_input(std::size_t i) const;
  /// Saved output `i`.
  Tensor output(std::size_t i) const;
  /// True if somebody wants the gradient of input `i`; otherwise it need not be computed.
  bool needs(std::size_t i) const;
  /// True if the gradient itself is being recorded: rules that otherwise use an op without a
  /// gradient rule must compose theirs from ops that have one.
  bool higher_order() const;
  template <class A>
  const A& attrs() const {
    return *static_cast<const A*>(attributes());
  }
  /// Number of inputs, and of entries in tensor argument `argument` where the op takes lists.
  std::size_t input_count() const;
  std::size_t list_size(std::size_t argument) const;
  /// Delivers the gradient of input `i`. For elementwise ops, broadcast dimensions are summed.
  void set(std::size_t i, Tensor gradient);

 private:
  const void* attributes() const;

  autograd::Node& node_;
  Tensor* output_gradients_;
  Tensor* input_gradients_;
};

using GradientRule = void (*)(GradientContext&);

class Gradient {
 public:
  Gradient(GradientRule rule) : rule_(rule) {}
  template <class Lambda>
  requires std::convertible_to<Lambda, GradientRule> Gradient(Lambda lambda) : rule_(lambda) {}
  GradientRule rule() const { return rule_; }
  /// Why there is no rule.
  const char* reason() const { return reason_; }

 private:
  friend Gradient not_differentiable(const char* reason);
  Gradient(GradientRule rule, const char* reason) : rule_(rule), reason_(reason) {}

  GradientRule rule_;
  const char* reason_ = nullptr;
};

inline Gradient not_differentiable(const char* reason) { return {nullptr, reason}; }

/// One tensor kept for the backward pass.
struct Save {
  enum class Kind : std::uint8_t { input, output, shape };
  Kind kind;
  std::uint8_t index;
  /// Kept only if one of these inputs needs a gradient (bit i: input i).
  std::uint32_t when = ~0u;
  /// Kept only if the call has this input, unless negative.
  std::int8_t given = -1;

  /// Keep only if the gradient of input `i` is wanted.
  constexpr Save for_grad_of(int i) const { return {kind, index, 1u << i, given}; }
  /// Keep only if the call has input `i`.
  constexpr Save with_input(int i) const {
    return {kind, index, when, static_cast<std::int8_t>(i)};
  }
};

constexpr Save input(int i) { return {Save::Kind::input, static_cast<std::uint8_t>(i)}; }
constexpr Save output(int i) { return {Save::Kind::output, static_cast<std::uint8_t>(i)}; }
/// Only shape and dtype of an input: costs no memory.
constexpr Save shape_of(int i) { return {Save::Kind::shape, static_cast<std::uint8_t>(i)}; }

class Saves {
 public:
  static constexpr int kMax = 8;

  template <std::same_as<Save>... Entries>
  requires(sizeof...(Entries) > 0 && sizeof...(Entries) <= kMax) constexpr Saves(Entries... entries)
      : entries_{entries...}, count_(sizeof...(Entries)) {}
  static constexpr Saves nothing() { return Saves(Nothing{}); }

  constexpr const Save* begin() const { return entries_; }
  constexpr const Save* end() const { return entries_ + count_; }
  constexpr int size() const { return count_; }

 private:
  struct Nothing {};
  constexpr explicit Saves(Nothing) {}

  Save entries_[kMax] = {};
  int count_ = 0;
};
inline constexpr Saves kSavesNothing = Saves::nothing();

// --- Properties ----------------------------------------------------------------------------------

/// What mixed precision does with an op's floating inputs.
enum class Autocast : std::uint8_t {
  promote,  ///< runs in the widest input dtype
  lower,    ///< runs in the autocast dtype (convolution, matmul)
  full,     ///< runs in float32 (losses, norms, exponentials)
};
enum class Determinism : std::uint8_t { deterministic, nondeterministic };
/// Random ops take their position in the random stream as an int64 input, so they are pure.
enum class RandomEffect : std::uint8_t { none, consumes_stream };
/// How code generation may combine the op with its neighbours.
enum class Fusion : std::uint8_t { elementwise, reduction, view, opaque };

class Aliasing {
 public:
  /// Outputs are new tensors.
  static constexpr Aliasing none() { return {false, 0}; }
  /// Every output views input 0.
  static constexpr Aliasing view() { return {true, 0}; }
  /// Writes to the tensors of these arguments (bit i: argument i); has no outputs.
  static constexpr Aliasing writes(std::uint32_t arguments) { return {false, arguments}; }

  constexpr bool is_view() const { return view_; }
  constexpr std::uint32_t written() const { return written_; }

 private:
  constexpr Aliasing(bool view, std::uint32_t written) : view_(view), written_(written) {}
  bool view_;
  std::uint32_t written_;
};

/// Throws unless an elementwise op takes an integer or bool in place of its tensor `input`, where
/// the tensors beside it make the result one of the integral `dtype`.
using NumberRule = void (*)(Scalar number, std::size_t input, DType dtype, const char* op);

/// The op of one input that does the same as an elementwise op of two whose second is this number,
/// of the first's dtype, but faster; where there is none, the op itself.
using ShortcutRule = OpId (*)(double number, DType dtype);

/// Static facts about an elementwise functor; see ops/schema/elementwise.h.
struct ElementwiseTraits {
  DTypes dtypes;
  bool to_float;
  bool predicate;
  std::uint8_t mask_inputs;
};

/// Static facts about a reduction functor; see ops/schema/reduction.h.
struct ReductionTraits;

struct OpDef {
  /// "softplus(Tensor self, float beta=1, float threshold=20) -> Tensor"
  Required<const char*> signature;
  Required<const char*> doc;
  Required<InferRule> infer;
  Required<Gradient> gradient;
  Saves saves;
  Required<Autocast> autocast;
  Required<Determinism> determinism;
  Required<RandomEffect> random;
  Required<Aliasing> aliasing;
  Required<Fusion> fusion;
  Required<SampleRule> samples;
  Required<ErrorRule> errors;
  /// Set by the helpers of the same name.
  const ElementwiseTraits* elementwise = nullptr;
  const ReductionTraits* reduction = nullptr;
  /// Of elementwise ops. Null: numbers beyond the dtype wrap, as everything computed in it does.
  NumberRule numbers = nullptr;
  /// Of elementwise ops of two inputs without attributes.
  ShortcutRule shortcut = nullptr;
  /// Of elementwise ops: true if these attributes turn integers into the default floating dtype.
  bool (*fractional)(const void* attrs) = nullptr;
  /// Of elementwise ops: bool operands are refused beside others, too.
  bool refuses_masks = false;
};

/// An op made of other ops: a plain C++ function beside this description.
struct CompositeDef {
  Required<const char*> signature;
  Required<const char*> doc;
  Required<SampleRule> samples;
  Required<ErrorRule> errors;
};

}  // namespace facula
