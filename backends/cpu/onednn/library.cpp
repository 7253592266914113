#include "backends/cpu/onednn/library.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "backends/cpu/kernels/kernel_names.h"
#include "backends/cpu/scratch.h"
#include "base/check.h"
#include "base/per_thread.h"
#include "base/signals.h"

namespace facula::cpu::onednn {
namespace {

/// oneDNN obeys FACULA_CPU_CAPABILITY too. Only possible before its first kernel is generated.
void cap_instruction_set() {
  constexpr dnnl::cpu_isa kCaps[] = {dnnl::cpu_isa::sse41, dnnl::cpu_isa::avx2};
  if (active_isa < 2) dnnl::set_max_cpu_isa(kCaps[active_isa]);
}

struct Stream {
  dnnl::stream stream{engine()};
};

}  // namespace

const dnnl::engine& engine() {
  // Never destroyed: threads may compute until the end.
  static const dnnl::engine* const cpu = [] {
    cap_instruction_set();
    return new dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return *cpu;
}

namespace {

std::atomic<bool> process_ends = false;
std::atomic<int> users = 0;
thread_local constinit int uses_of_this_thread = 0;

void wait_for_users() {
  process_ends = true;
  if (uses_of_this_thread > 0) return;  // exit() was called from within
  for (int count; (count = users) > 0;) users.wait(count);
}

std::mutex mutex;  // of the implementations known below

/// The child of a fork has no threads but the one that forked.
bool follow_forks() {
  const auto in_child = [] {
    users = uses_of_this_thread > 0 ? 1 : 0;
    mutex.unlock();
  };
  return pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, in_child) == 0;
}

/// Has wait_for_users() called before the objects are destroyed that the first run of this
/// implementation made: functions of atexit() and destructors run in the reverse order.
void await_users_before_destroying(const char* implementation) {
  static auto* const known = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (known->insert(implementation).second) std::atexit(wait_for_users);
}

}  // namespace

Refusal refuse_at_end() {
  static thread_local constinit bool ended = false;
  struct End {
    ~End() { ended = true; }
  };
  if (ended || process_ends) return "the thread or process ends, and oneDNN is perhaps gone";
  static thread_local const End end;  // NOLINT(*-exit-time-destructors): what it is for
  return nullptr;
}

InUse::InUse() {
  static const bool follows_forks = follow_forks();
  static_cast<void>(follows_forks);
  if (uses_of_this_thread++ == 0) ++users;
  granted_ = uses_of_this_thread > 1 || !process_ends;
}

InUse::~InUse() {
  if (--uses_of_this_thread > 0) return;
  if (--users == 0 && process_ends) users.notify_all();
}

void run_at_end(const KernelArgs& args) {
  for (const Implementation& other : implementations(args.call.op.id, DeviceType::cpu)) {
    if (!other.refuse || !other.refuse(args)) return other.run(args);
  }
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

namespace {

/// Its text lives as long as the primitive.
const char* implementation_of(const dnnl::primitive& primitive) {
  const char* implementation = "";
  dnnl_primitive_desc_query(primitive.get_primitive_desc(), dnnl_query_impl_info_str, 0,
                            static_cast<void*>(&implementation));
  return implementation;
}

/// Matrix products that oneDNN generates ("gemm:jit", also inside convolutions) point the stack
/// pointer into a buffer of theirs. A signal handler that ran then would write beyond it.
bool moves_stack(const char* implementation) {
  return std::strstr(implementation, "gemm") != nullptr;
}

}  // namespace

Kernel::Kernel(dnnl::primitive primitive, const std::vector<Operand>& operands,
               const dnnl::memory::desc& scratchpad)
    : primitive_(std::move(primitive)),
      scratch_bytes_(scratchpad.get_size()),
      implementation_(implementation_of(primitive_)),
      moves_stack_(moves_stack(implementation_)) {
  constexpr void* kNoBuffer = DNNL_MEMORY_NONE;
  for (const Operand& operand : operands) {
    memories_.emplace_back(operand.desc, engine(), kNoBuffer);
    descs_.push_back(operand.desc);
    arguments_.push_back({operand.argument, memories_.back().get()});
  }
  if (scratch_bytes_ > 0) {
    memories_.emplace_back(scratchpad, engine(), kNoBuffer);
    arguments_.push_back({DNNL_ARG_SCRATCHPAD, memories_.back().get()});
  }
}

void Kernel::operator()(std::initializer_list<const void*> data) {
  const Scratch<std::byte> scratch(static_cast<std::int64_t>(scratch_bytes_));
  std::size_t i = 0;
  const auto bind = [&](const void* p) {
    // The C function: the C++ one waits for the stream and may clear padding on the way.
    dnnl_memory_set_data_handle(memories_[i++].get(), const_cast<void*>(p));
  };
  OneThread alone;
  for (const void* p : data) bind(p);
  if (scratch_bytes_ > 0) bind(scratch.data());
  const base::SignalsHeld held(moves_stack_);
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), base::per_thread<Stream>().stream.get(),
                             static_cast<int>(arguments_.size()), arguments_.data());
  check<Error>(status == dnnl_success, "oneDNN: a kernel failed with status {}",
               static_cast<int>(status));
  if (!std::exchange(has_run_, true)) await_users_before_destroying(implementation_);
}

std::size_t KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (int i = 0; i < key.count; ++i) {
    hash =
        (hash ^ static_cast<std::uint64_t>(key.words[static_cast<std::size_t>(i)])) * 0x100000001b3;
    hash ^= hash >> 29;
  }
  return hash;
}

KernelCache& KernelCache::of_this_thread() { return base::per_thread<KernelCache>(); }

}  // namespace facula::cpu::onednn
