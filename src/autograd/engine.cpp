#include "autograd/engine.h"

#include <facula/ops.h>

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "autograd/anomaly.h"
#include "base/check.h"
#include "base/per_thread.h"
#include "core/promotion.h"
#include "runtime/deferred.h"
#include "runtime/mode.h"

namespace facula::autograd {
namespace {

using runtime::ModeGuard;

/// What a hook returned in place of `gradient` must go on where that would have gone.
void check_replacement(const Node& node, const Tensor& replaced, const Tensor& gradient) {
  check<ShapeError>(replaced.sizes() == gradient.sizes(),
                    "hook on {}: returned a gradient of size {}, expected {}; return one of the "
                    "size of the hook's argument",
                    node.name(), replaced.sizes(), gradient.sizes());
  check<DTypeError>(replaced.dtype() == gradient.dtype(),
                    "hook on {}: returned a {} gradient of size {}, expected {}; convert it with "
                    "to()",
                    node.name(), name_of(replaced.dtype()), replaced.sizes(),
                    name_of(gradient.dtype()));
  check<DeviceError>(replaced.device() == gradient.device(),
                     "hook on {}: returned a gradient on {}, expected {}; move it with to()",
                     node.name(), replaced.device(), gradient.device());
}

/// The outermost pass of the thread that may write places into nodes.
std::atomic<const void*> marking_pass = nullptr;

/// One backward pass. Nodes carry their place in its table, which tells whether that is true; a
/// nested pass that meets the same nodes puts the outer pass's places back when it is done. Passes
/// of several threads may have nodes in common, leaves above all: those that begin beside another
/// thread's keep the places to themselves, which takes longer. The roots, which the pass holds,
/// keep every node alive that it visits.
class Sweep {
 public:
  Sweep(std::span<const Edge> roots, const BackwardOptions& options)
      : roots_(roots),
        options_(options),
        outer_(std::exchange(current, this)),
        marks_(outer_ ? outer_->marks_ : may_mark()) {
    for (const Edge& root : roots_) retain(root.node);
    swap_spare_memory();
  }
  ~Sweep() {
    if (outer_ && marks_) {
      for (const Entry& entry : entries_) entry.node->place = entry.outer_place;
    }
    if (!outer_ && marks_) marking_pass.store(nullptr, std::memory_order_release);
    for (const Edge& root : roots_) release(root.node);
    current = outer_;
    entries_.clear();
    gradients_.clear();
    ready_.clear();
    if (!marks_) places_.clear();
    swap_spare_memory();
  }

  std::vector<Tensor> run(std::vector<Tensor> gradients) {
    discover();
    produced_.resize(most_inputs_);
    captured_.resize(options_.targets.size());
    if (!options_.targets.empty()) mark_wanted();
    for (std::size_t i = 0; i < roots_.size(); ++i) {
      Entry& entry = entries_[place_of(*roots_[i].node)];
      add(gradient_of(entry, roots_[i].index), std::move(gradients[i]));
    }
    for (const Edge& root : roots_) {
      const std::uint32_t place = place_of(*root.node);
      if (entries_[place].pending == 0 && !entries_[place].queued) enqueue(place);
    }
    while (!ready_.empty()) {
      const std::uint32_t place = ready_.back();
      ready_.pop_back();
      visit(place);
    }
    return std::move(captured_);
  }

  bool wanted(const Node& node) const {
    if (options_.targets.empty()) return true;
    const std::uint32_t place = place_of(node);
    return place != kNowhere && entries_[place].wanted;
  }

  /// Of a node that has been entered.
  Tensor& sum(const Edge& edge) { return gradient_of(entries_[place_of(*edge.node)], edge.index); }

  bool marks() const { return marks_; }

  static thread_local Sweep* current;

 private:
  struct Entry {
    Node* node;
    std::uint32_t outer_place;
    std::int32_t pending;      ///< consumers that have not delivered yet
    std::uint32_t first_grad;  ///< place of the output gradients
    bool wanted;               ///< a target or on the way to one
    bool runs;                 ///< on the way to a target
    bool queued;
  };

  static constexpr std::uint32_t kNowhere = UINT32_MAX;

  bool may_mark() const {
    const void* none = nullptr;
    return marking_pass.compare_exchange_strong(none, this, std::memory_order_acquire);
  }

  /// kNowhere if the node has not been entered.
  std::uint32_t place_of(const Node& node) const {
    if (marks_) [[likely]] {
      const std::uint32_t place = node.place;
      return place < entries_.size() && entries_[place].node == &node ? place : kNowhere;
    }
    const auto found = places_.find(&node);
    return found == places_.end() ? kNowhere : found->second;
  }

  std::uint32_t enter(Node* node) {
    const bool everything = options_.targets.empty();
    const auto place = static_cast<std::uint32_t>(entries_.size());
    entries_.push_back({.node = node,
                        .outer_place = marks_ ? node->place : 0,
                        .pending = 0,
                        .first_grad = static_cast<std::uint32_t>(gradients_.size()),
                        .wanted = everything,
                        .runs = everything,
                        .queued = false});
    for (int i = 0; i < node->outputs; ++i) gradients_.emplace_back();
    most_inputs_ = std::max<std::size_t>(most_inputs_, node->inputs);
    if (marks_) {
      node->place = place;
    } else {
      places_.emplace(node, place);
    }
    return place;
  }

  /// Enters every reachable node and counts its consumers.
  void discover() {
    for (const Edge& root : roots_) {
      if (place_of(*root.node) == kNowhere) enter(root.node);
    }
    for (std::uint32_t i = 0; i < entries_.size(); ++i) {
      for_each_input(i, [this](const Edge& edge) {
        const std::uint32_t place = place_of(*edge.node);
        ++entries_[place != kNowhere ? place : enter(edge.node)].pending;
      });
    }
  }

  /// Marks the targets and what lies between them and the roots: only that needs to run.
  void mark_wanted() {
    for (const Edge& target : options_.targets) {
      const std::uint32_t place = target.node ? place_of(*target.node) : kNowhere;
      if (place != kNowhere) entries_[place].wanted = true;
    }
    // Consumers before producers: a node follows once all its consumers are in the list.
    std::vector<std::uint32_t> order;
    std::vector<std::int32_t> pending;
    order.reserve(entries_.size());
    pending.reserve(entries_.size());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      pending.push_back(entries_[i].pending);
      if (entries_[i].pending == 0) order.push_back(static_cast<std::uint32_t>(i));
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      for_each_input(order[i], [&](const Edge& edge) {
        const std::uint32_t place = place_of(*edge.node);
        if (--pending[place] == 0) order.push_back(place);
      });
    }
    for (std::size_t i = order.size(); i-- > 0;) {
      Entry& entry = entries_[order[i]];
      for_each_input(
          order[i], [&](const Edge& edge) { entry.runs |= entries_[place_of(*edge.node)].wanted; });
      entry.wanted |= entry.runs;
    }
  }

  template <class F>
  void for_each_input(std::uint32_t place, F visit_edge) {
    Node& node = *entries_[place].node;
    for (int k = 0; k < node.inputs; ++k) {
      if (node.edges()[k].node) visit_edge(node.edges()[k]);
    }
  }

  Tensor& gradient_of(const Entry& entry, std::size_t output) {
    return gradients_[entry.first_grad + output];
  }

  static void add(Tensor& sum, Tensor&& gradient) {
    const DType dtype = gradient.impl()->dtype;
    if (gradient_dtype(dtype) != dtype) [[unlikely]]
      gradient = gradient.to(gradient_dtype(dtype));
    if (!sum.defined()) {
      sum = std::move(gradient);
    } else {
      sum = facula::add(std::move(sum), gradient);
    }
  }

  void enqueue(std::uint32_t place) {
    entries_[place].queued = true;
    ready_.push_back(place);
  }

  void capture(const Entry& entry) {
    for (std::size_t i = 0; i < options_.targets.size(); ++i) {
      const Edge& target = options_.targets[i];
      if (target.node == entry.node) captured_[i] = gradient_of(entry, target.index);
    }
  }

  void run_hooks(Entry& entry) {
    NodeExtras& extras = *entry.node->extras;
    // A copy: a hook may remove itself.
    const std::vector<NodeExtras::GradHook> hooks = extras.gradient_hooks;
    for (const NodeExtras::GradHook& hook : hooks) {
      Tensor& gradient = gradient_of(entry, hook.output);
      if (!gradient.defined()) continue;
      if (Tensor replaced = hook.callback(gradient); replaced.defined()) {
        check_replacement(*entry.node, replaced, gradient);
        gradient = std::move(replaced);
      }
    }
    for (NodeExtras::Retained& kept : extras.retained) {
      const Tensor& gradient = gradient_of(entry, kept.output);
      if (!gradient.defined()) continue;
      kept.gradient = kept.gradient.defined() ? kept.gradient + gradient : clone(gradient);
    }
  }

  /// The tables stay as discover() left them: a pass nested in a rule or hook has its own.
  void visit(std::uint32_t place) {
    Entry& entry = entries_[place];
    Node& node = *entry.node;
    if (node.extras) [[unlikely]]
      run_hooks(entry);
    if (!options_.targets.empty()) [[unlikely]]
      capture(entry);
    const bool runs = entry.runs && reached(entry);
    Tensor* received = &gradients_[entry.first_grad];
    Tensor* produced = produced_.data();
    if (runs) {
      node.kind->apply(node, received, produced);
      if (runtime::tl_mode & runtime::kAnomaly) [[unlikely]]
        check_gradients(node, produced);
      if (!options_.retain_graph && node.kind != &kAccumulateKind) release_saved(node);
    }
    // Memory goes as soon as it has been used.
    for (int i = 0, count = node.outputs; i < count; ++i) received[i] = Tensor();
    const Edge* edges = node.edges();
    for (int k = 0, count = node.inputs; k < count; ++k) {
      Tensor gradient = std::move(produced[k]);
      if (!edges[k].node) continue;
      const std::uint32_t next = place_of(*edges[k].node);
      // A rule may give more than is wanted.
      if (gradient.defined() && entries_[next].wanted) {
        add(gradient_of(entries_[next], edges[k].index), std::move(gradient));
      }
      if (--entries_[next].pending == 0) enqueue(next);
    }
  }

  /// False if no gradient arrived: a path that ended in a rule without a gradient.
  bool reached(const Entry& entry) {
    for (int i = 0; i < entry.node->outputs; ++i) {
      if (gradient_of(entry, i).defined()) return true;
    }
    return false;
  }

  /// The tables' memory, kept from one pass to the next.
  struct Spare {
    std::vector<Entry> entries;
    std::vector<Tensor> gradients;
    std::vector<std::uint32_t> ready;
    std::unordered_map<const Node*, std::uint32_t> places;
  };

  void swap_spare_memory() {
    auto& spare = base::per_thread<Spare>();
    entries_.swap(spare.entries);
    gradients_.swap(spare.gradients);
    ready_.swap(spare.ready);
    places_.swap(spare.places);
  }

  std::span<const Edge> roots_;
  const BackwardOptions& options_;
  Sweep* outer_;
  const bool marks_;  ///< places are in the nodes, not in places_
  std::vector<Entry> entries_;
  std::vector<Tensor> gradients_;
  std::vector<std::uint32_t> ready_;
  std::unordered_map<const Node*, std::uint32_t> places_;
  std::vector<Tensor> produced_;  ///< what the node being visited gives its inputs; else undefined
  std::size_t most_inputs_ = 0;
  std::vector<Tensor> captured_;
};

thread_local Sweep* Sweep::current = nullptr;

/// Passes of other threads do not go on in the child of a fork().
[[maybe_unused]] const int at_fork = pthread_atfork(nullptr, nullptr, [] {
  if (!Sweep::current || !Sweep::current->marks()) marking_pass = nullptr;
});

/// Takes `incoming` where it can. Returns the handle that it replaces.
Tensor add_gradient(Accumulator& state, const TensorImpl& variable, Tensor& incoming) {
  const bool recording = !(runtime::tl_mode & runtime::kNoGrad);
  Tensor gradient;  // what the leaf has so far, and keeps if anything below throws
  if (state.gradient) {
    __atomic_fetch_add(&state.gradient->references, 1, __ATOMIC_RELAXED);
    gradient = Tensor::adopt(state.gradient);
  }
  if (state.fixed_buffer) {
    const bool history = recording && (incoming.requires_grad() || gradient.requires_grad());
    check<AutogradError>(!history || !gradient.impl()->has(TensorImpl::kIsView),
                         "backward: with create_graph, the gradient of a leaf of size {} has a "
                         "history, which its gradient buffer, a view of other memory, cannot "
                         "take; use autograd::grad, or a buffer with memory of its own",
                         variable.size_list());
    state.empty ? gradient.copy_(incoming) : gradient.copy_(gradient + incoming);
    state.empty = false;
  } else if (!gradient.defined()) {
    // Optimizers walk parameter and gradient side by side: give the gradient the same strides, and
    // memory of its own unless it is already nobody else's.
    const TensorImpl& impl = *incoming.impl();
    const bool own = impl.unique() && impl.storage && alone_in_storage(impl) && is_dense(impl) &&
                     impl.stride_list() == variable.stride_list();
    if (own) {
      gradient = std::move(incoming);
    } else if (recording) {
      gradient = clone(incoming);
    } else {
      gradient = is_dense(variable) ? new_strided(variable.size_list(), variable.stride_list(),
                                                  impl.dtype, variable.device)
                                    : empty_like(incoming);
      gradient.copy_(incoming);
    }
  } else if (recording) {
    gradient = gradient + incoming;
  } else {
    gradient.add_(incoming);
  }
  return Tensor::adopt(std::exchange(state.gradient, gradient.leak()));
}

void accumulate(Node& node, Tensor* output_gradients, Tensor*) {
  // The leaf may be gone, and its gradient with it, or want none any more.
  const Tensor leaf = variable_of(node);
  if (!leaf.requires_grad()) return;
  Tensor incoming = std::move(output_gradients[0]);
  runtime::settle(incoming);
  check<ShapeError>(incoming.sizes() == leaf.sizes(),
                    "backward: a gradient of size {} arrived at a leaf of size {}",
                    incoming.sizes(), leaf.sizes());
  const DType dtype = gradient_dtype(leaf.dtype());
  if (incoming.dtype() != dtype) incoming = incoming.to(dtype);
  Tensor replaced;
  {
    const std::lock_guard lock(mutex_of(node));
    replaced = add_gradient(accumulator(node), *leaf.impl(), incoming);
  }
  if (node.extras) {
    const std::vector<NodeExtras::AccumulationHook> hooks = node.extras->accumulation_hooks;
    for (const NodeExtras::AccumulationHook& hook : hooks) hook.callback(leaf);
  }
}

void destroy_accumulator(Node& node) noexcept {
  Tensor::adopt(std::exchange(accumulator(node).gradient, nullptr));
}

}  // namespace

const NodeKind kAccumulateKind = {"accumulate_grad", accumulate, destroy_accumulator};

bool wanted_in_sweep(const Node& node) { return !Sweep::current || Sweep::current->wanted(node); }

Tensor* sum_in_sweep(const Edge& edge) {
  return Sweep::current ? &Sweep::current->sum(edge) : nullptr;
}

std::vector<Tensor> run_backward(std::span<const Edge> roots, std::vector<Tensor> gradients,
                                 const BackwardOptions& options) {
  const std::uint32_t set = options.create_graph ? 0u : runtime::kNoGrad;
  const std::uint32_t clear = options.create_graph ? runtime::kNoGrad : 0u;
  const ModeGuard mode(set, clear);
  std::optional<runtime::DeferralScope> deferral;
  if (!options.create_graph) deferral.emplace();
  Sweep sweep(roots, options);
  std::vector<Tensor> captured = sweep.run(std::move(gradients));
  for (const Tensor& gradient : captured) runtime::settle(gradient);
  return captured;
}

}  // namespace facula::autograd
