// Automatic differentiation: modes, gradients, hooks, custom functions, checkpointing, gradcheck.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <facula/tensor.h>

namespace facula {

/// Nothing is recorded while this object lives, on this thread.
class FACULA_API NoGradGuard {
 public:
  NoGradGuard();
  ~NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  std::uint32_t saved_;
};

/// Records again (or not) inside a NoGradGuard.
class FACULA_API AutoGradMode {
 public:
  explicit AutoGradMode(bool enabled);
  ~AutoGradMode();
  AutoGradMode(const AutoGradMode&) = delete;
  AutoGradMode& operator=(const AutoGradMode&) = delete;

  static bool is_enabled();

 private:
  std::uint32_t saved_;
};

/// NoGradGuard whose results cannot be saved for backward or made to require grad: recorded calls
/// take them only where backward does not need their values, as in sums.
class FACULA_API InferenceMode {
 public:
  InferenceMode();
  ~InferenceMode();
  InferenceMode(const InferenceMode&) = delete;
  InferenceMode& operator=(const InferenceMode&) = delete;

 private:
  std::uint32_t saved_;
};

namespace autograd {

/// While alive, backward throws AutogradError at the first op that returns a NaN gradient, naming
/// the op, the module path and a backtrace of the forward call. Slow: for finding faults only.
class FACULA_API AnomalyMode {
 public:
  AnomalyMode();
  ~AnomalyMode();
  AnomalyMode(const AnomalyMode&) = delete;
  AnomalyMode& operator=(const AnomalyMode&) = delete;

 private:
  std::uint32_t saved_;
};

/// Accumulates the gradients of all leaves from several outputs at once. `gradients` may be empty
/// where every output has one element. With create_graph, gradients hold the graph, which holds the
/// leaves: set_grad({}) or zero_grad() lets go of them; or use grad(), whose results nobody holds.
///
/// Several threads may run backward at once, also through parts that their graphs have in common if
/// all retain the graph and no tensor of those parts has hooks or retains its gradient.
FACULA_API void backward(const std::vector<Tensor>& outputs, std::vector<Tensor> gradients = {},
                         bool retain_graph = false, bool create_graph = false);

struct GradOptions {
  std::vector<Tensor> grad_outputs = {};
  bool retain_graph = false;
  /// Makes the result differentiable itself.
  bool create_graph = false;
  /// Return an undefined tensor for inputs that do not matter instead of throwing AutogradError.
  bool allow_unused = false;
};
/// d(outputs)/d(inputs) without touching any grad() but those that retain_grad() asked for.
FACULA_API std::vector<Tensor> grad(const std::vector<Tensor>& outputs,
                                    const std::vector<Tensor>& inputs,
                                    const GradOptions& options = {});

// --- Hooks ---------------------------------------------------------------------------------------

/// Removes its hook on remove(); outliving the tensor is fine.
/// It keeps the history of the tensor alive, with what backward still needs of it.
class FACULA_API HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  void remove();

 private:
  std::function<void()> remove_;
};

/// Calls `hook` with the gradient of `tensor`; a defined result, of the same size, dtype and
/// device, replaces the gradient. Values that `tensor` gets in place afterwards are not the hook's:
/// it sees the gradient of those it was registered for.
FACULA_API HookHandle register_hook(const Tensor& tensor,
                                    std::function<Tensor(const Tensor&)> hook);
/// Calls `hook` with a leaf after a backward pass has accumulated its whole gradient.
FACULA_API HookHandle register_post_accumulate_grad_hook(const Tensor& leaf,
                                                         std::function<void(const Tensor&)> hook);
/// Gradients of `leaf` are written into `buffer` (same size and dtype), which grad() then returns.
FACULA_API void set_grad_buffer(const Tensor& leaf, const Tensor& buffer);

// --- Custom functions ----------------------------------------------------------------------------

struct Node;

/// What a custom function's forward keeps for its backward.
class FACULA_API FunctionContext {
 public:
  /// Keeps inputs, outputs or intermediate tensors, as they are when forward returns. Reading them
  /// after a later in-place change is an error.
  void save_for_backward(std::vector<Tensor> tensors);
  /// In forward what was kept so far; in backward the tensors, connected to the graph.
  std::vector<Tensor> saved_tensors() const;
  /// True if the gradient of tensor input `i` is wanted.
  bool needs_input_grad(std::size_t i) const;
  /// In forward: these outputs do not require grad, and their gradients reach backward undefined.
  void mark_non_differentiable(std::vector<Tensor> outputs);

  /// What else backward needs, such as attributes or sizes: a copy of what forward put here.
  /// Tensors belong to save_for_backward, which watches over them.
  std::any saved_data;

 private:
  friend class CustomNode;
  std::vector<Tensor> saved_;
  std::vector<Tensor> non_differentiable_;
  std::vector<bool> needs_;
  Node* node_ = nullptr;  ///< in backward
};

using FunctionForward = std::function<std::vector<Tensor>(FunctionContext&)>;
using FunctionBackward =
    std::function<std::vector<Tensor>(FunctionContext&, const std::vector<Tensor>&)>;

/// Runs `forward` unrecorded and records `backward`, which gets one gradient per output (undefined
/// where unused) and returns one per input (undefined for none).
FACULA_API std::vector<Tensor> apply_function(std::string name, const std::vector<Tensor>& inputs,
                                              const FunctionForward& forward,
                                              FunctionBackward backward);

/// A differentiable function of your own; the name, optional, appears in messages. What follows the
/// tensors in apply() goes to forward. If backward is made of ops, higher derivatives work too:
///
///   struct ScaledSquare : autograd::Function<ScaledSquare> {
///     static constexpr const char* name = "ScaledSquare";
///     static std::vector<Tensor> forward(FunctionContext& ctx, const std::vector<Tensor>& in,
///                                        double scale) {
///       ctx.save_for_backward(in);
///       ctx.saved_data = scale;
///       return {in[0] * in[0] * scale};
///     }
///     static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grad) {
///       return {grad[0] * ctx.saved_tensors()[0] * (2 * std::any_cast<double>(ctx.saved_data))};
///     }
///   };
///   Tensor y = ScaledSquare::apply({x}, 0.5)[0];
template <class Derived>
struct Function {
  template <class... Arguments>
  static std::vector<Tensor> apply(const std::vector<Tensor>& inputs,
                                   const Arguments&... arguments) {
    std::string name = "Function";
    if constexpr (requires { std::string(Derived::name); }) name = Derived::name;
    return apply_function(
        std::move(name), inputs,
        [&](FunctionContext& context) { return Derived::forward(context, inputs, arguments...); },
        [](FunctionContext& context, const std::vector<Tensor>& gradients) {
          return Derived::backward(context, gradients);
        });
  }
};

// --- Checkpointing and checks --------------------------------------------------------------------

/// Runs `segment` without keeping what its ops would save, and runs it again during backward, with
/// the random numbers that it drew. Trades one extra forward pass for memory. Everything else works
/// as without checkpointing: grad() of some tensors, higher derivatives, hooks, segments inside
/// segments, backward passes inside them, inputs without gradient around parameters that have one.
/// The segment must compute the same both times: AutogradError if shapes, the number of saved
/// tensors or of random numbers differ, or an input changed meanwhile. Pass as inputs what else it
/// reads and somebody may change before backward; draw random numbers with ops, not with
/// Generator::reserve(). Side effects, such as running statistics and manual_seed(), happen twice.
FACULA_API std::vector<Tensor> checkpoint(
    std::function<std::vector<Tensor>(const std::vector<Tensor>&)> segment,
    const std::vector<Tensor>& inputs);

struct GradcheckOptions {
  double eps = 1e-6;
  double atol = 1e-5;
  double rtol = 1e-3;
  /// Also check the gradient's gradient.
  bool second_order = false;
};
/// Compares gradients with central differences. Inputs must be float64 and require grad. Returns an
/// empty string if they agree, otherwise a description of the first difference.
FACULA_API std::string gradcheck(
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& function,
    const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

}  // namespace autograd
}  // namespace facula
