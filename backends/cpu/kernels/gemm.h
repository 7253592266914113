// Matrix products that stay within one thread and its caches: the building block of float64 matmul
// and of small problems, where a library's set-up would cost more than the arithmetic.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

/// Rows of a matrix: row i begins at data + (offsets ? offsets[i] : i * stride), and its elements
/// are consecutive. With offsets, rows may overlap: that is how a convolution reads its input as
/// the matrix of its shifted copies without writing that matrix down.
template <class T>
struct Rows {
  const T* data;
  std::int64_t stride;
  const std::int64_t* offsets;
};

/// c[i][j] = bias + sum over k of a[i][k] * b[k][j], k ascending with a single partial sum, so that
/// blocking does not change bits (unless sums are joined).
template <class T>
struct ProductBlock {
  std::int64_t m, n, k;
  const T* packed_a;  ///< from pack()
  Rows<T> b;          ///< k rows of n
  T* c;
  std::int64_t c_stride;
  const T* row_bias;     ///< m values added to the rows, or null
  const T* column_bias;  ///< n values added to the columns, or null
  bool accumulate;       ///< start from c instead of 0
  /// Add the sums to c when they are done: of long rows errors grow less if parts of them are
  /// summed up by themselves, and c need not be there before.
  bool join = false;
  /// With AVX-512, ask for rows of b before their turn, while the first rows of a go by. They have
  /// no offsets.
  bool ahead = false;
  /// So many elements are asked for, for the second-level cache, while the rows of a go by.
  const T* next = nullptr;
  std::int64_t next_size = 0;
};

/// c[i][j] = bias + dot product of row i of a and row j of b, each of k elements; summed over
/// `batch` pairs of matrices, the next ones a_step and b_step elements further.
template <class T>
struct DotBlock {
  std::int64_t m, n, k;
  Rows<T> a, b;
  std::int64_t batch, a_step, b_step;
  T* c;
  std::int64_t c_stride;
  const T* column_bias;
  bool accumulate;
  /// While the first rows of a go by, ask for rows of b before their turn, and for some behind the
  /// last, which a neighbouring block will read.
  bool ahead = false;
};

template <class T>
struct GemmLoops {
  /// Rows of a panel of packed A, whose element (i, k) is at (i / rows * k_count + k) * rows + i %
  /// rows. Rows missing in the last panel are left out of the computation, but have their place.
  int rows;
  /// Columns that are computed together, and those of one tile of `rows` rows.
  int columns, panel_columns;
  /// Elements that pack() needs.
  std::int64_t packed_size(std::int64_t m, std::int64_t k) const {
    return (m + rows - 1) / rows * rows * k;
  }
  void (*pack)(const T* a, std::int64_t row_stride, std::int64_t column_stride, std::int64_t m,
               std::int64_t k, T* packed);
  /// k rows of n as panels of `panel_columns` columns, the last of which may be narrower, but takes
  /// as much place.
  void (*pack_columns)(const T* b, std::int64_t stride, std::int64_t k, std::int64_t n, T* packed);
  /// The n rows of k elements, `stride` apart, as k rows of n, `to_stride` apart.
  void (*transpose)(const T* rows, std::int64_t stride, std::int64_t n, std::int64_t k,
                    T* transposed, std::int64_t to_stride);
  /// Copies `rows` rows of n elements.
  void (*copy)(const T* from, std::int64_t from_stride, std::int64_t rows, std::int64_t n, T* to,
               std::int64_t to_stride);
  void (*product)(const ProductBlock<T>& block);
  void (*dots)(const DotBlock<T>& block);
};

struct GemmKernels {
  GemmLoops<float> f32;
  GemmLoops<double> f64;
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(GemmKernels, gemm)

namespace facula::cpu {

template <class T>
const GemmLoops<T>& gemm_loops();
template <>
inline const GemmLoops<float>& gemm_loops<float>() {
  return gemm_kernels().f32;
}
template <>
inline const GemmLoops<double>& gemm_loops<double>() {
  return gemm_kernels().f64;
}

}  // namespace facula::cpu
