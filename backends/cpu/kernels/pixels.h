// Inner loops of the input pipeline.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"
#include "data/pixel_kernels.h"

FACULA_DECLARE_KERNELS(facula::data::PixelKernels, pixels)
