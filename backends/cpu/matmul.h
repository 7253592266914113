// mm, bmm and linear as one problem: a batch of matrix products with an optional bias.
#pragma once

#include "core/tensor_impl.h"
#include "runtime/op_registry.h"

namespace facula::cpu {

/// A batch of matrices; strides in elements.
struct Matrices {
  const std::byte* data = nullptr;
  std::int64_t row_stride = 0, column_stride = 0, batch_stride = 0;

  /// Rows, or columns, of consecutive elements.
  bool rows_dense() const { return column_stride == 1; }
  bool columns_dense() const { return row_stride == 1; }
};

/// out[b] = left[b] * right[b] + bias, where left is [m, k], right [k, n], out [m, n] dense.
struct MatmulProblem {
  DType dtype;
  std::int64_t batch, m, n, k;
  Matrices left, right;
  const std::byte* bias = nullptr;  ///< n values or null
  std::byte* out;
  Tensor copies[3];  ///< keeps what had to be copied to become dense

  std::int64_t multiplications() const { return batch * m * n * k; }
};

/// Reads the call of mm, bmm or linear. Inputs that have neither dense rows nor dense columns are
/// copied; transposed ones are not.
MatmulProblem matmul_problem(const KernelArgs& args);

/// Pieces of `step` rows or columns of the result for the threads. Depends on the problem only.
struct MatmulCut {
  bool by_rows;
  std::int64_t step, pieces;

  MatmulCut(bool rows, std::int64_t extent, std::int64_t wanted, std::int64_t granule);
};

}  // namespace facula::cpu
