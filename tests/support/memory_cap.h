// Changing the cap of host memory for a while.
#pragma once

#include <cstdint>

#include <facula/memory.h>

#include "core/host_allocator.h"

namespace facula {

/// Begins with nothing cached, and restores the cap at its end.
class RestoreMemoryCap {
 public:
  RestoreMemoryCap() { cpu::empty_cache(); }
  ~RestoreMemoryCap() {
    set_host_memory_cap(cap_);
    cpu::empty_cache();
  }
  RestoreMemoryCap(const RestoreMemoryCap&) = delete;
  RestoreMemoryCap& operator=(const RestoreMemoryCap&) = delete;

 private:
  std::int64_t cap_ = host_memory_cap();
};

}  // namespace facula
