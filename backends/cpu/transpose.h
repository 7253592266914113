// Copies between layouts in which different dimensions are contiguous.
#pragma once

#include <facula/tensor.h>

namespace facula::cpu {

/// Copies source to destination (same dtype, source broadcast to its size) by square tiles if their
/// innermost dimensions differ, as between NCHW and channels_last or in a matrix transpose. Returns
/// false, having done nothing, where tiles would not help.
bool copy_transposed(const Tensor& source, const Tensor& destination);

}  // namespace facula::cpu
