// Calls that run when somebody reads their result.
//
// Inside a module's forward() and a backward pass, the results of a few ops (fusion.h) have shape,
// dtype and history, but no memory yet: storage without data, whose context is the call that
// computes it. Whoever needs the elements settles it first: the dispatcher for inputs, data_ptr()
// and the like, and every in-place write for what is still to be computed from the written tensor,
// and the end of the outermost forward() or pass for what somebody keeps beyond it. So nobody can
// tell the difference, except that relu, or its gradient, may find its input not computed yet and
// do everything in one pass.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/small_vector.h"
#include "core/tensor_impl.h"
#include "ops/op_ids.h"
#include "ops/schema/call.h"

namespace facula::runtime {

/// A call that outlives its operands' handles.
struct KeptCall {
  KeptCall(OpId id, std::vector<Tensor> inputs, const void* attributes, std::size_t bytes);
  template <class A>
  KeptCall(OpId id, std::vector<Tensor> inputs, const A& attributes)
      : KeptCall(id, std::move(inputs), &attributes, sizeof(A)) {}
  explicit KeptCall(const Call& call);

  template <class A>
  const A& attrs() const {
    return *reinterpret_cast<const A*>(attributes.data());
  }
  /// Runs it without recording. Throws what the op throws.
  Tensor run() const;
  /// Bit i: input i requires its gradient now.
  std::uint64_t requiring_grad() const;

  OpId id;
  std::vector<Tensor> inputs;
  SmallVector<std::max_align_t, 4> attributes;
  /// Bit i: the call was recorded for the gradient of input i.
  std::uint64_t recorded = 0;
};

struct Deferred {
  /// Computes the elements.
  KeptCall values;
  /// The recorded call that this is the first result of, with its other results; empty where that
  /// is `values` itself.
  std::optional<KeptCall> origin = {};
  std::vector<Tensor> other_results = {};
  /// Waits beyond the outermost forward(): what backward keeps, which no user can reach.
  bool outlives_scope = false;
  /// So many calls wait for each other, this one among them.
  int length = 1;
};

/// A tensor whose elements `deferred` will compute. Settles its inputs if too many calls would wait
/// for each other.
Tensor defer(IntList sizes, IntList strides, DType dtype, Deferred deferred);

/// How the elements are going to be computed; null if they are there.
std::shared_ptr<const Deferred> deferral(const Tensor& tensor);

/// Computes what is still to be computed, here and in tensors that share the memory.
void settle_elements(const TensorImpl& impl);
inline void settle(const Tensor& tensor) {
  if (const TensorImpl* impl = tensor.impl(); impl && !impl->load_data()) [[unlikely]]
    settle_elements(*impl);
}
/// The first element of a defined tensor, for one who reads only: data_ptr() would make ops expect
/// that elements change unnoticed from now on.
inline const std::byte* elements_to_read(const Tensor& tensor) {
  settle(tensor);
  return tensor.impl()->load_data();
}
/// Settles everything that will read `storage`, which is about to change.
void settle_readers(const Storage* storage);

/// Results may be deferred while one of these exists on the thread. The end of the last one
/// computes those that are still held, in a member of the module for instance; what fails is tried
/// again when somebody reads it.
class DeferralScope {
 public:
  DeferralScope() { ++depth; }
  ~DeferralScope() {
    if (--depth == 0) settle_thread();
  }
  DeferralScope(const DeferralScope&) = delete;
  DeferralScope& operator=(const DeferralScope&) = delete;
  static bool exists() { return depth > 0; }
  /// True if this is the only one.
  static bool outermost() { return depth == 1; }
  /// True if the result of a call with so many elements may wait.
  static bool active(std::int64_t numel);

 private:
  friend class NoDeferral;
  static void settle_thread() noexcept;
  static thread_local constinit int depth;
};

/// Nothing is deferred while one of these exists on the thread.
class NoDeferral {
 public:
  NoDeferral() : saved_(std::exchange(DeferralScope::depth, 0)) {}
  ~NoDeferral() { DeferralScope::depth = saved_; }
  NoDeferral(const NoDeferral&) = delete;
  NoDeferral& operator=(const NoDeferral&) = delete;

 private:
  int saved_;
};

}  // namespace facula::runtime
