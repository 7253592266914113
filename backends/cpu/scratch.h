// Temporary memory of a kernel call.
#pragma once

#include <cstdint>

#include "core/host_allocator.h"

namespace facula::cpu {

/// Uninitialised elements from the caching allocator, given back at the end of the scope.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t count)
      : bytes_(static_cast<std::size_t>(count) * sizeof(T)),
        data_(static_cast<T*>(scratch_allocate(bytes_))) {}
  ~Scratch() { scratch_free(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const { return data_; }
  T& operator[](std::int64_t i) const { return data_[i]; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  T* data_;
};

}  // namespace facula::cpu
