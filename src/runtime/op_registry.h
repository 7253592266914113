// The table of ops, and their implementations on each device.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "ops/schema/elementwise_loop.h"
#include "ops/schema/op.h"

namespace facula {

// --- Implementations -----------------------------------------------------------------------------

/// What a kernel works with. Outputs are allocated; inputs have the dtypes the op's rule accepted.
struct KernelArgs {
  const Call& call;
  Tensor* outputs;
  std::size_t output_count;

  const Tensor& in(std::size_t i) const { return call.in(i); }
  bool has(std::size_t i) const { return call.has(i); }
  const Tensor& out(std::size_t i = 0) const { return outputs[i]; }
  std::span<const Tensor* const> list(std::size_t argument) const { return call.list(argument); }
  template <class A>
  const A& attrs() const {
    return call.attrs<A>();
  }
};

/// Why an implementation does not take a problem; empty if it does.
using Refusal = const char*;

/// One way to compute an op. Lists are ordered: the first entry that accepts runs.
struct Implementation {
  const char* name;
  /// Null accepts everything; otherwise returns null to accept or the reason to refuse.
  Refusal (*refuse)(const KernelArgs& args);
  void (*run)(const KernelArgs& args);
  /// Implementations of an op with the same number other than 0 give the same bits for every
  /// problem that they take.
  int bits = 0;
};

namespace detail {
extern std::atomic<bool> initialized;
void initialize_once();
}  // namespace detail
extern Op* op_table;

/// Fills the tables if that has not happened yet.
inline void ensure_initialized() {
  if (!detail::initialized.load(std::memory_order_acquire)) [[unlikely]]
    detail::initialize_once();
}

/// The table of all primitive ops, complete after the first use.
inline Op& op(OpId id) {
  ensure_initialized();
  return op_table[static_cast<std::size_t>(id)];
}
/// Null if there is no such primitive.
Op* find_op(std::string_view name);

/// Inner loops of the CPU's elementwise ops by dtype of the inputs; null where unsupported.
extern ElementwiseLoop elementwise_loops[static_cast<int>(OpId::count)][kDTypeCount];
/// Those among them whose inputs and result are of one dtype, which the dispatcher may run
/// directly.
extern ElementwiseLoop direct_loops[static_cast<int>(OpId::count)][kDTypeCount];

/// The implementations of an op on a device, in the order in which they are tried.
const std::vector<Implementation>& implementations(OpId id, DeviceType device);
/// Adds an implementation at the end of an op's list.
void register_implementation(OpId id, DeviceType device, Implementation implementation);

/// Float32 multiply-adds that a device can do at most, in GFLOP/s, measured when first asked for
/// with a number of threads; 0 if its backend does not tell.
double peak_gflops(DeviceType device);
void register_peak(DeviceType device, double (*measure)());
/// What run_multiply_adds (facula/system.h) calls.
void register_multiply_adds(double (*run)(std::int64_t rounds));

/// Adds every backend that was linked in. Defined by the composition root of the library.
void register_backends();

// Interface of the generated registration.
namespace ops {
struct Registration {
  OpId id;
  const char* name;
  OpDef (*define)();
  AttrSchema attrs;
  std::uint8_t tensor_arguments;
  bool has_lists;
};
extern const Registration kRegistrations[];
}  // namespace ops

}  // namespace facula
