// Switches of the backends' algorithms.
#pragma once

#include <facula/export.h>

namespace facula::backends::cpu {

/// Whether float32 convolutions may use Winograd's algorithm, which is about twice as fast as
/// adding up products directly and has up to 5 times its rounding errors (about 1e-6 of the largest
/// result). On unless FACULA_WINOGRAD=0.
FACULA_API bool winograd();
/// Turns Winograd's algorithm on or off for all threads.
FACULA_API void winograd(bool enabled);

}  // namespace facula::backends::cpu
