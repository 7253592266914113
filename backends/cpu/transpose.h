// Copies between layouts in which different dimensions are contiguous, and of rows apart.
#pragma once

#include <facula/tensor.h>

namespace facula::cpu {

/// Copies source to destination (same dtype, source broadcast to its size) by square tiles if their
/// innermost dimensions differ, as between NCHW and channels_last or in a matrix transpose. Returns
/// false, having done nothing, where tiles would not help.
bool copy_transposed(const Tensor& source, const Tensor& destination);

/// The same by rows that are contiguous in both, but lie apart in one, as where channels_last
/// images are joined or padded. Returns false for long rows, and results that go past the caches.
bool copy_short_rows(const Tensor& source, const Tensor& destination);

/// `n` rows of `k` elements, `stride` apart, as `k` rows of `n`, `to_stride` apart; on the calling
/// thread.
void transpose_rows(const float* rows, std::int64_t stride, std::int64_t n, std::int64_t k,
                    float* to, std::int64_t to_stride);

}  // namespace facula::cpu
