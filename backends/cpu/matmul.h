// mm, bmm, linear and linear_fused as one problem: a batch of matrix products with an optional bias
// and activation.
#pragma once

#include <optional>

#include "core/tensor_impl.h"
#include "ops/attrs/hardtanh.h"
#include "runtime/op_registry.h"

namespace facula::cpu {

/// The ops whose implementations are written for all of them.
inline constexpr OpId kProducts[] = {OpId::mm, OpId::bmm, OpId::linear, OpId::linear_fused};

/// The second input is [n, k], and there may be a bias.
inline bool is_linear(OpId op) { return op == OpId::linear || op == OpId::linear_fused; }

/// What linear_fused makes of each element of the product: an elementwise op. Nothing for the other
/// ops.
class Activation {
 public:
  Activation() = default;
  explicit Activation(const KernelArgs& args);

  /// Absent if there is none.
  std::optional<OpId> op() const { return op_; }
  const void* attrs() const { return op_ == OpId::hardtanh ? &limits_ : nullptr; }
  /// Applies it to a matrix of the dtype of the problem, `stride` elements from row to row.
  void apply(void* values, std::int64_t rows, std::int64_t columns, std::int64_t stride) const;

 private:
  std::optional<OpId> op_;
  ops::hardtanh_attrs limits_ = {0, 0};
  DType dtype_ = kFloat32;
};

/// A batch of matrices; strides in elements.
struct Matrices {
  const std::byte* data = nullptr;
  std::int64_t row_stride = 0, column_stride = 0, batch_stride = 0;

  /// Rows, or columns, of consecutive elements.
  bool rows_dense() const { return column_stride == 1; }
  bool columns_dense() const { return row_stride == 1; }

  /// Element (row, column) of a matrix of the batch.
  template <class T>
  const T* at(std::int64_t matrix, std::int64_t row, std::int64_t column) const {
    return reinterpret_cast<const T*>(data) + matrix * batch_stride + row * row_stride +
           column * column_stride;
  }
};

/// out[b] = activation(left[b] * right[b] + bias), where left is [m, k], right [k, n], out [m, n]
/// dense.
struct MatmulProblem {
  DType dtype;
  std::int64_t batch, m, n, k;
  Matrices left, right;
  const std::byte* bias = nullptr;  ///< n values or null
  Activation activation;
  std::byte* out;
  Tensor copies[3];  ///< keeps what had to be copied to become dense

  template <class T>
  T* out_at(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return reinterpret_cast<T*>(out) + (b * m + i) * n + j;
  }
  template <class T>
  const T* bias_at(std::int64_t j) const {
    return bias ? reinterpret_cast<const T*>(bias) + j : nullptr;
  }
};

/// Reads the call of one of kProducts. Inputs that have neither dense rows nor dense columns are
/// copied; transposed ones are not.
MatmulProblem matmul_problem(const KernelArgs& args);

/// Whether a call of one of kProducts is faster if everything is packed, and its result then
/// (ops/matmul_blocks.cpp).
bool better_in_blocks(const KernelArgs& args);
void multiply_in_blocks(const MatmulProblem& problem);

/// Pieces of `step` rows or columns of the result for the threads. Depends on the problem only.
struct MatmulCut {
  bool by_rows;
  std::int64_t step, pieces;

  MatmulCut(bool rows, std::int64_t extent, std::int64_t wanted, std::int64_t granule);
};

}  // namespace facula::cpu
