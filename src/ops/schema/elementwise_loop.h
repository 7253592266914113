// The inner loops of elementwise ops, as dispatch, drivers and kernels know them.
#pragma once

#include <cstdint>

namespace facula {

/// Where the operands of a loop lie.
enum class Reach : std::uint8_t {
  near,      ///< perhaps in the caches
  far,       ///< beyond them: the loop asks ahead for its inputs
  streamed,  ///< and the output, which begins at a cache line and has no gaps, may bypass them
};

/// n elements; pointers and byte strides of the output and the inputs.
using ElementwiseLoop = void (*)(const void* attrs, std::int64_t n, char* const* pointers,
                                 const std::int64_t* strides, Reach reach);

}  // namespace facula
