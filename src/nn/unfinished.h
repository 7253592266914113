// Module copies whose members are still being copied.
#pragma once

#include <mutex>

#include <facula/nn/module.h>

namespace facula::nn {

/// Shared by all threads: a copy may be destroyed by another thread than the one that made it.
struct Module::UnfinishedCopies {
  static void add(Module& module);
  static void remove(Module& module);
  /// Nobody claims anything while it is held; holds nothing if no copy is unfinished.
  static std::unique_lock<std::mutex> lock();
  /// The module that expects `copy`, made from `source`, as its member; null if none does.
  static Module* claim(const Member& copy, const Member& source);
};

}  // namespace facula::nn
