// The inner loops of elementwise ops, as dispatch, drivers and kernels know them.
#pragma once

#include <cstdint>

namespace facula {

/// What a loop does about operands beyond the caches.
struct Reach {
  bool ask = false;     ///< ahead for the inputs
  bool stream = false;  ///< the output, which begins at a cache line and has no gaps, past them
};

/// n elements; pointers and byte strides of the output and the inputs.
using ElementwiseLoop = void (*)(const void* attrs, std::int64_t n, char* const* pointers,
                                 const std::int64_t* strides, Reach reach);

}  // namespace facula
