// Module copies whose members are still being copied.
#pragma once

#include <facula/nn/module.h>

namespace facula::nn {

/// Shared by all threads: a copy may be destroyed by another thread than the one that made it.
struct Module::UnfinishedCopies {
  static void add(Module& module);
  static void remove(Module& module);
  /// The module that expects `copy`, made from `source`, as its member; null if none does.
  static Module* claim(const Member& copy, const Member& source);
};

}  // namespace facula::nn
