#include "runtime/module_path.h"

#include <fmt/core.h>

namespace facula::runtime {
namespace {

thread_local ModulePathScope* innermost = nullptr;

}  // namespace

ModulePathScope::ModulePathScope(const std::string& name) : name_(&name), outer_(innermost) {
  innermost = this;
}

ModulePathScope::~ModulePathScope() { innermost = outer_; }

std::string module_path() {
  std::string path;
  for (const ModulePathScope* scope = innermost; scope; scope = scope->outer_) {
    if (scope->name_->empty()) continue;
    path = path.empty() ? *scope->name_ : fmt::format("{}.{}", *scope->name_, path);
  }
  return path;
}

}  // namespace facula::runtime
