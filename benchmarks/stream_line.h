// Stores past the caches, for the loops that kernels are compared with.
#pragma once

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "cli/machine_limits.h"

namespace facula::machine {

#if defined(__x86_64__)
inline void stream(Line* to, const Line& value) {
  for (int k = 0; k < 4; ++k) {
    __m128 part;
    std::memcpy(&part, reinterpret_cast<const char*>(&value) + 16 * k, 16);
    _mm_stream_ps(reinterpret_cast<float*>(to) + 4 * k, part);
  }
}
/// To be called by the thread that streamed.
inline void finish_streaming() { _mm_sfence(); }
#else
inline void stream(Line* to, const Line& value) { *to = value; }
inline void finish_streaming() {}
#endif

}  // namespace facula::machine
