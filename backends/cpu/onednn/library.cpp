#include "backends/cpu/onednn/library.h"

#include <cstring>
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

Refusal refuse_at_end() {
  static thread_local constinit bool ended = false;
  struct End {
    ~End() { ended = true; }
  };
  if (ended) return "the thread is at its end, and oneDNN perhaps gone";
  static thread_local const End end;  // NOLINT(*-exit-time-destructors): what it is for
  return nullptr;
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

namespace {

/// Matrix products that oneDNN generates ("gemm:jit", also inside convolutions) point the stack
/// pointer into a buffer of theirs. A signal handler that ran then would write beyond it.
bool moves_stack(const dnnl::primitive& primitive) {
  const char* implementation = "";
  dnnl_primitive_desc_query(primitive.get_primitive_desc(), dnnl_query_impl_info_str, 0,
                            static_cast<void*>(&implementation));
  return std::strstr(implementation, "gemm") != nullptr;
}

}  // namespace

Kernel::Kernel(dnnl::primitive primitive, const std::vector<Operand>& operands,
               const dnnl::memory::desc& scratchpad)
    : primitive_(std::move(primitive)),
      scratch_bytes_(scratchpad.get_size()),
      moves_stack_(moves_stack(primitive_)) {
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
