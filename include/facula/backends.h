// Switches of the backends' algorithms.
#pragma once

#include <facula/export.h>

namespace facula::backends::cpu {

/// Whether float32 convolutions may use Winograd's algorithm, which with stride 1 is two to three
/// times as fast as adding up products directly, with stride 2 about 1.4 times. Its rounding
/// errors, about 1e-6 of the largest result, are up to five times those of direct summation, and a
/// NaN or infinity reaches all pixels of its tiles of 4x4, in gradients with stride 2 of 8x8. On
/// unless FACULA_WINOGRAD=0.
FACULA_API bool winograd();
/// Turns Winograd's algorithm on or off for all threads.
FACULA_API void winograd(bool enabled);

}  // namespace facula::backends::cpu
