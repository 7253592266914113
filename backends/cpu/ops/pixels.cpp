// Hands the input pipeline its inner loops.
#include "backends/cpu/kernels/pixels.h"
#include "backends/cpu/registration.h"

namespace facula::cpu {

void register_pixels() { data::set_pixel_kernels(pixels_kernels()); }

}  // namespace facula::cpu
