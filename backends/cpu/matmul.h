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

/// How one of the products is cut into slices for the threads: pieces of `step` rows or columns of
/// the result, whichever there are more of. Depends on the problem only.
struct MatmulCut {
  bool by_rows;
  std::int64_t step;
  std::int64_t pieces;
};
/// Pieces of about `work` multiplications, and a multiple of `granule` rows or columns.
MatmulCut cut_matmul(const MatmulProblem& problem, std::int64_t work, std::int64_t granule);

}  // namespace facula::cpu
