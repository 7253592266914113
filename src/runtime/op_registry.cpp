#include "runtime/op_registry.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include <facula/parallel.h>

namespace facula {

ElementwiseLoop elementwise_loops[static_cast<int>(OpId::count)][kDTypeCount] = {};
ElementwiseLoop direct_loops[static_cast<int>(OpId::count)][kDTypeCount] = {};

std::atomic<bool> detail::initialized = false;
Op* op_table = nullptr;

namespace {

constexpr int kOpCount = static_cast<int>(OpId::count);

std::vector<Op>& table() {
  // Never destroyed: worker threads and static tensors may outlive the end of main.
  static auto* ops = new std::vector<Op>;
  return *ops;
}

using ImplementationLists = std::vector<Implementation>[kDeviceTypeCount];

ImplementationLists* implementation_table() {
  static auto* lists = new ImplementationLists[kOpCount];
  return lists;
}

void plan_saves(Op& op) {
  std::fill(std::begin(op.input_slot), std::end(op.input_slot), std::int8_t{-1});
  std::fill(std::begin(op.output_slot), std::end(op.output_slot), std::int8_t{-1});
  std::int8_t slot = 0;
  for (const Save& save : op.def.saves) {
    const bool of_output = save.kind == Save::Kind::output;
    (of_output ? op.output_slot : op.input_slot)[save.index] = slot++;
  }
}

void initialize() {
  table().reserve(kOpCount);
  for (int i = 0; i < kOpCount; ++i) {
    const ops::Registration& entry = ops::kRegistrations[i];
    table().push_back({.id = entry.id,
                       .name = entry.name,
                       .def = entry.define(),
                       .attrs = entry.attrs,
                       .tensor_arguments = entry.tensor_arguments,
                       .has_lists = entry.has_lists,
                       .input_slot = {},
                       .output_slot = {}});
    plan_saves(table().back());
  }
  op_table = table().data();
  register_backends();
  for (const Op& op : table()) {
    const ElementwiseTraits* traits = op.def.elementwise;
    if (!traits || traits->predicate || traits->mask_inputs > 0) continue;
    const int row = static_cast<int>(op.id);
    std::copy_n(elementwise_loops[row], kDTypeCount, direct_loops[row]);
    for (int dtype = 0; op.def.fractional && dtype < kDTypeCount; ++dtype) {
      if (!is_floating_point(static_cast<DType>(dtype))) direct_loops[row][dtype] = nullptr;
    }
  }
  detail::initialized.store(true, std::memory_order_release);
}

}  // namespace

void detail::initialize_once() {
  // Not call_once(): it needs thread-local storage of the C++ library's, as everything here
  // directly addressed, and that is not to be had where the library was loaded after the program
  // began.
  [[maybe_unused]] static const bool done = (initialize(), true);
}

Op* find_op(std::string_view name) {
  ensure_initialized();
  for (Op& op : table()) {
    if (name == op.name) return &op;
  }
  return nullptr;
}

void register_implementation(OpId id, DeviceType device, Implementation implementation) {
  // Called while the table is being filled, hence without ensure_initialized().
  implementation_table()[static_cast<int>(id)][static_cast<int>(device)].push_back(implementation);
}

namespace {

double (*peak_measures[kDeviceTypeCount])() = {};

}  // namespace

void register_peak(DeviceType device, double (*measure)()) {
  peak_measures[static_cast<int>(device)] = measure;
}

double peak_gflops(DeviceType device) {
  static std::mutex measuring;
  // By number of threads; never destroyed, like the table.
  static auto* peaks = new std::map<int, double>[kDeviceTypeCount];
  const auto i = static_cast<std::size_t>(device);
  const std::lock_guard lock(measuring);
  const auto [peak, first] = peaks[i].try_emplace(get_num_threads(), 0);
  if (first && peak_measures[i]) peak->second = peak_measures[i]();
  return peak->second;
}

const std::vector<Implementation>& implementations(OpId id, DeviceType device) {
  return implementation_table()[static_cast<int>(id)][static_cast<int>(device)];
}

}  // namespace facula
