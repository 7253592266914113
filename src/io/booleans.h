// Booleans from files, whose bytes may be anything.
#pragma once

#include <cstdint>
#include <span>

#include <facula/tensor.h>

namespace facula::io {

/// Any byte but 0 and 1 would be undefined behaviour when it is read as a boolean; as in NumPy and
/// PyTorch, it counts as true.
inline void make_booleans(std::span<uint8_t> bytes) {
  for (uint8_t& byte : bytes) byte = byte != 0;
}

/// The same of a contiguous tensor on the CPU if it is one of booleans.
inline void make_booleans(const Tensor& tensor) {
  if (tensor.dtype() != kBool) return;
  make_booleans({static_cast<uint8_t*>(tensor.raw_data()), static_cast<size_t>(tensor.numel())});
}

}  // namespace facula::io
