// Switches of the backends' algorithms.
#pragma once

#include <cstdint>

#include <facula/export.h>

namespace facula::backends::cpu {

/// Whether float32 convolutions may use Winograd's algorithm, which with stride 1 is two to three
/// times as fast as adding up products directly, with stride 2 about 1.4 times.
///
/// Its rounding errors, where magnitudes stay below 1e37, are less than 8e-5 * max|a| * max|b| *
/// products per result that meets no padding, in gradients of weights 2e-5, where a and b are what
/// is multiplied: input, weight or gradient of the output. Measured, images of signs with period
/// four, alike in all channels, come to 3.7e-5 of that (1e-5 in gradients of weights), equal
/// numbers to 7e-6 and others to 4e-7, while direct summation, whose sums are longer, comes to 1e-4
/// for equal numbers and to 1e-6 for others. Problems with sums too long for this bound are left to
/// direct summation. Errors spread over the tiles, though: of normally distributed numbers they are
/// up to seven times those of direct summation, and up to fifteen times where a few numbers are far
/// larger than the others. A NaN or infinity reaches all pixels of its tiles of 4x4, in gradients
/// with stride 2 of 8x8. (Other algorithms, too, multiply some by the zeros of padding: direct
/// tiles, shifted products, lines of depthwise convolutions and, where images are no larger than
/// kernels, dense matrices let them reach pixels of the same image, or weights, that no product of
/// theirs belongs to.)
///
/// On unless FACULA_WINOGRAD=0.
FACULA_API bool winograd();
/// Turns Winograd's algorithm on or off for all threads.
FACULA_API void winograd(bool enabled);

/// Which implementations of an op may stand in for each other.
enum class Alternatives : std::uint8_t {
  same_bits,     ///< those that give the same bits
  any_rounding,  ///< all that compute the op, whatever the order and algorithm of their sums
};

/// Whether convolutions and matrix products choose among their implementations by measuring them
/// when a problem (sizes, strides, attributes, threads) first comes, which takes four runs of each
/// or up to 0.2 s, whichever is more, instead of by a fixed order. Worth it where the same sizes
/// come again and again. Off by default. Those that give the same bits are so far the block sizes
/// of Winograd's algorithm.
FACULA_API bool benchmark();
/// Turns that on or off for all threads; what was measured is remembered until the program ends.
/// With Alternatives::any_rounding, results may differ in rounding from run to run, because the
/// times decide. FACULA_VERBOSE=1 prints each decision with the times.
FACULA_API void benchmark(bool enabled, Alternatives alternatives = Alternatives::same_bits);

}  // namespace facula::backends::cpu
