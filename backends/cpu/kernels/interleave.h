// Pixels of few channels as planes, and planes as pixels.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

/// Channels of pixels that these loops take.
constexpr std::int64_t kFewestInterleaved = 2, kMostInterleaved = 4;

template <class T>
struct InterleaveLoops {
  /// planes[c * stride + i] = pixels[i * channels + c] for i < n.
  void (*split)(const T* pixels, std::int64_t channels, std::int64_t n, T* planes,
                std::int64_t stride);
  /// The reverse.
  void (*join)(const T* planes, std::int64_t stride, std::int64_t channels, std::int64_t n,
               T* pixels);
};

/// By the size of elements.
struct InterleaveKernels {
  InterleaveLoops<std::uint8_t> of_1;
  InterleaveLoops<std::uint16_t> of_2;
  InterleaveLoops<std::uint32_t> of_4;
  InterleaveLoops<std::uint64_t> of_8;
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(InterleaveKernels, interleave)

namespace facula::cpu {

/// Of an unsigned type as large as an element.
template <class E>
const InterleaveLoops<E>& interleave_loops() {
  const InterleaveKernels& kernels = interleave_kernels();
  if constexpr (sizeof(E) == 1) return kernels.of_1;
  if constexpr (sizeof(E) == 2) return kernels.of_2;
  if constexpr (sizeof(E) == 4) return kernels.of_4;
  if constexpr (sizeof(E) == 8) return kernels.of_8;
}

}  // namespace facula::cpu
