#include <facula/system.h>

#include <utility>

#include "base/cpu_info.h"
#include "runtime/libraries.h"
#include "runtime/op_registry.h"

namespace facula {
namespace {

// Filled once, while the backends register.
std::vector<std::string>& libraries() {
  static auto* names = new std::vector<std::string>;
  return *names;
}

double (*multiply_adds)(std::int64_t rounds) = nullptr;

/// A device counts as supported if it can add.
std::vector<std::string> supported_devices() {
  std::vector<std::string> devices;
  for (const DeviceType type : {DeviceType::cpu, DeviceType::cuda}) {
    if (!implementations(OpId::add, type).empty()) devices.push_back(Device(type).str());
  }
  return devices;
}

}  // namespace

namespace runtime {
void register_library(std::string name_and_version) {
  libraries().push_back(std::move(name_and_version));
}
}  // namespace runtime

void register_multiply_adds(double (*run)(std::int64_t rounds)) { multiply_adds = run; }

SystemInfo system_info() {
  ensure_initialized();
  return {.cpu = base::cpu_model_name(),
          .isa = base::to_string(base::cpu_capability()),
          .detected_isa = base::to_string(base::detected_cpu_capability()),
          .usable_cpus = base::usable_cpus(),
          .usable_memory = base::usable_memory_bytes(),
          .devices = supported_devices(),
          .libraries = libraries()};
}

double run_multiply_adds(std::int64_t rounds) {
  ensure_initialized();
  return multiply_adds(rounds);
}

}  // namespace facula
