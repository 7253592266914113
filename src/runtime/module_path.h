// Which module's forward is running on this thread, for error messages and profiles.
#pragma once

#include <string>

namespace facula::runtime {

/// Names a module for the duration of its forward call. `name` must outlive the object.
class ModulePathScope {
 public:
  explicit ModulePathScope(const std::string& name);
  ~ModulePathScope();
  ModulePathScope(const ModulePathScope&) = delete;
  ModulePathScope& operator=(const ModulePathScope&) = delete;

 private:
  friend std::string module_path();
  const std::string* name_;
  ModulePathScope* outer_;
};

/// "layer1.0.conv1", or empty outside of modules.
std::string module_path();

}  // namespace facula::runtime
