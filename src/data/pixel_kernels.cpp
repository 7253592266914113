#include "data/pixel_kernels.h"

#include "runtime/op_registry.h"

namespace facula::data {
namespace {

PixelKernels registered;

}  // namespace

const PixelKernels& pixel_kernels() {
  ensure_initialized();
  return registered;
}

void set_pixel_kernels(const PixelKernels& kernels) { registered = kernels; }

}  // namespace facula::data
