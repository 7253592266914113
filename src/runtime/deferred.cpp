#include "runtime/deferred.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "runtime/dispatch.h"
#include "runtime/fusion.h"
#include "runtime/mode.h"

namespace facula::runtime {

thread_local constinit int DeferralScope::depth = 0;

namespace {

/// Smaller results are computed at once: what a pass saves is less than what waiting costs.
constexpr std::int64_t kFewestElements = 1 << 15;

/// The context of storage that waits. All of them form a list.
struct Waiting {
  std::shared_ptr<const Deferred> deferred;
  Dims strides;
  /// The thread whose outermost scope computes it at the latest.
  std::thread::id thread;
  Storage* storage = nullptr;
  bool running = false;
  bool failed = false;
  Waiting* before = nullptr;
  Waiting* after = nullptr;
};

/// Guards the list, and who computes what.
std::mutex mutex;
Waiting* first = nullptr;
std::atomic<int> count = 0;

/// The child of a fork() finds the list whole; what threads of the parent were computing waits
/// there for whoever wants it.
[[maybe_unused]] const int at_fork =
    pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); },
                   [] {
                     for (Waiting* waiting = first; waiting; waiting = waiting->after)
                       waiting->running = false;
                     mutex.unlock();
                   });

void link(Waiting* waiting) {
  waiting->after = first;
  if (first) first->before = waiting;
  first = waiting;
  ++count;
}

void unlink(Waiting* waiting) {
  (waiting->before ? waiting->before->after : first) = waiting->after;
  if (waiting->after) waiting->after->before = waiting->before;
  --count;
}

/// Deleter of storage that nobody read.
void forget(Storage&, void* context) {
  const std::unique_ptr<Waiting> waiting(static_cast<Waiting*>(context));
  const std::lock_guard lock(mutex);
  unlink(waiting.get());
}

/// Moves the memory of a result into the storage that waited for it.
void publish(Waiting& waiting, const Tensor& result) {
  Storage& from = *result.impl()->storage;
  Storage& to = *waiting.storage;
  to.deleter = std::exchange(from.deleter, nullptr);
  __atomic_store_n(&to.context, std::exchange(from.context, nullptr), __ATOMIC_RELEASE);
  __atomic_store_n(&to.data, std::exchange(from.data, nullptr), __ATOMIC_RELEASE);
}

/// Who first comes computes; others wait for it.
void compute(Storage& storage) {
  Waiting* waiting = nullptr;
  while (!waiting) {
    {
      const std::lock_guard lock(mutex);
      if (storage.load_data() || storage.deleter != forget) return;
      auto* candidate = static_cast<Waiting*>(storage.context);
      if (!candidate->running) waiting = candidate;
      candidate->running = true;
    }
    if (!waiting) std::this_thread::yield();
  }
  Tensor result;
  try {
    result = waiting->deferred->values.run();
    check<Error>(result.strides() == IntList(waiting->strides),
                 "{}: the deferred result has strides {}, announced were {}",
                 op(waiting->deferred->values.id).name, result.strides(),
                 IntList(waiting->strides));
  } catch (...) {
    const std::lock_guard lock(mutex);
    waiting->running = false;
    waiting->failed = true;
    throw;
  }
  const std::unique_ptr<Waiting> done(waiting);
  const std::lock_guard lock(mutex);
  unlink(waiting);
  publish(*waiting, result);
}

/// Adds a reference unless the last one is gone already.
bool try_retain(Storage& storage) {
  std::int32_t references = __atomic_load_n(&storage.references, __ATOMIC_RELAXED);
  while (references > 0) {
    if (__atomic_compare_exchange_n(&storage.references, &references, references + 1, true,
                                    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
      return true;
    }
  }
  return false;
}

bool reads(const Waiting& waiting, const Storage* storage) {
  for (const Tensor& input : waiting.deferred->values.inputs) {
    if (input.defined() && input.impl()->storage == storage) return true;
  }
  return false;
}

/// Something that waits and is wanted, with a reference; null if there is none.
template <class Wanted>
Storage* find_waiting(Wanted wanted) {
  const std::lock_guard lock(mutex);
  for (Waiting* waiting = first; waiting; waiting = waiting->after) {
    if (wanted(*waiting) && try_retain(*waiting->storage)) return waiting->storage;
  }
  return nullptr;
}

/// Computes all that is wanted.
template <class Wanted>
void compute_all(Wanted wanted) {
  if (count.load(std::memory_order_relaxed) == 0) return;
  while (Storage* storage = find_waiting(wanted)) {
    try {
      compute(*storage);
    } catch (...) {
      storage->release();
      throw;
    }
    storage->release();
  }
}

}  // namespace

KeptCall::KeptCall(OpId id, std::vector<Tensor> inputs, const void* attrs, std::size_t bytes)
    : id(id),
      inputs(std::move(inputs)),
      attributes((bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t)) {
  if (bytes) std::memcpy(attributes.data(), attrs, bytes);
}

KeptCall::KeptCall(const Call& call)
    : KeptCall(call.op.id, {}, call.attributes, call.op.attrs.bytes) {
  for (std::uint32_t i = 0; i < call.count; ++i) inputs.push_back(call.in(i));
  if (!(tl_mode & kNoGrad)) recorded = requiring_grad();
}

std::uint64_t KeptCall::requiring_grad() const {
  std::uint64_t result = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].requires_grad()) result |= std::uint64_t{1} << i;
  }
  return result;
}

Tensor KeptCall::run() const {
  SmallVector<const Tensor*, 8> pointers;
  for (const Tensor& input : inputs) pointers.push_back(&input);
  const Call call{op(id), pointers.data(), static_cast<std::uint32_t>(inputs.size()),
                  attributes.data()};
  const ModeGuard no_grad(kNoGrad);
  const NoDeferral at_once;
  Outputs outputs;
  if (!run_fused(call, true, outputs)) dispatch(call, outputs);
  return std::move(outputs[0]);
}

Tensor defer(IntList sizes, IntList strides, DType dtype, Deferred deferred) {
  // Calls run inside each other: a chain of any length would need a stack of any size.
  constexpr int kLongest = 8;
  for (const Tensor& input : deferred.values.inputs) {
    const std::shared_ptr<const Deferred> waiting = deferral(input);
    if (!waiting) continue;
    if (waiting->length < kLongest) {
      deferred.length = std::max(deferred.length, waiting->length + 1);
    } else {
      settle(input);
    }
  }
  auto waiting =
      std::make_unique<Waiting>(Waiting{std::make_shared<const Deferred>(std::move(deferred)),
                                        Dims(strides), std::this_thread::get_id()});
  const std::size_t bytes =
      static_cast<std::size_t>(checked_numel(sizes, "empty")) * size_of(dtype);
  auto impl = std::make_unique<TensorImpl>();
  impl->storage = wrap_storage(nullptr, bytes, kCPU, forget, waiting.get());
  waiting->storage = impl->storage;
  impl->dtype = dtype;
  impl->set_layout(sizes, strides);
  const std::lock_guard lock(mutex);
  link(waiting.release());
  return Tensor::adopt(impl.release());
}

std::shared_ptr<const Deferred> deferral(const Tensor& tensor) {
  const TensorImpl* impl = tensor.impl();
  if (!impl || impl->load_data() || !impl->storage) return nullptr;
  const std::lock_guard lock(mutex);
  const Storage& storage = *impl->storage;
  if (storage.load_data() || storage.deleter != forget) return nullptr;
  return static_cast<Waiting*>(storage.context)->deferred;
}

void settle_elements(const TensorImpl& impl) {
  Storage* storage = impl.storage;
  if (!storage) return;
  if (!storage->load_data()) compute(*storage);
  auto* data = static_cast<std::byte*>(storage->load_data());
  if (!data) return;
  data += impl.offset * static_cast<std::int64_t>(size_of(impl.dtype));
  // Once only: other threads read it without further ado as soon as they find it set.
  const std::lock_guard lock(mutex);
  if (impl.load_data()) return;
  __atomic_store_n(&const_cast<TensorImpl&>(impl).data, data, __ATOMIC_RELEASE);
}

void settle_readers(const Storage* storage) {
  if (!storage) return;
  compute_all([storage](const Waiting& waiting) { return reads(waiting, storage); });
}

void DeferralScope::settle_thread() noexcept {
  const auto held = [thread = std::this_thread::get_id()](const Waiting& waiting) {
    return waiting.thread == thread && !waiting.deferred->outlives_scope && !waiting.failed;
  };
  for (bool complete = false; !complete;) {
    try {
      compute_all(held);
      complete = true;
    } catch (...) {  // fails again when it is read, where somebody can take it
    }
  }
}

bool DeferralScope::active(std::int64_t numel) {
  constexpr std::uint32_t kHarmless = kNoGrad | kInference | kDeterministic | kVerbose | kFirstCall;
  return depth > 0 && numel >= kFewestElements && !(tl_mode & ~kHarmless);
}

}  // namespace facula::runtime
