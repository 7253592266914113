#include "backends/cpu/matmul.h"

#include <algorithm>
#include <utility>

#include "base/divide_up.h"
#include "ops/attrs/linear_fused.h"

namespace facula::cpu {
namespace {

constexpr std::int64_t kMostPieces = 64;

/// The last two dimensions as a matrix, the one before them as the batch.
Matrices matrices_of(const Tensor& tensor, bool transposed, Tensor& copy) {
  const TensorImpl* impl = tensor.impl();
  const int last = impl->dim - 1;
  // A dimension of size 1 may have any stride, so it hides nothing dense.
  const auto dense = [&](int d) { return impl->strides[d] == 1 || impl->sizes[d] == 1; };
  const auto apart = [&](int d, int other) {
    return impl->strides[other] >= impl->sizes[d] || impl->sizes[other] == 1;
  };
  const bool usable =
      (dense(last) && apart(last, last - 1)) || (dense(last - 1) && apart(last - 1, last));
  if (!usable) {
    copy = tensor.contiguous();
    impl = copy.impl();
  }
  Matrices m;
  m.data = impl->data;
  m.row_stride = impl->strides[last - 1];
  m.column_stride = impl->strides[last];
  if (impl->sizes[last] == 1 && m.row_stride != 1) m.column_stride = 1;
  if (impl->sizes[last - 1] == 1 && m.column_stride != 1) m.row_stride = 1;
  // The longer stride of a matrix with one row or column may be anything: make it a legal one.
  if (m.column_stride == 1) m.row_stride = std::max(m.row_stride, impl->sizes[last]);
  if (m.column_stride != 1) m.column_stride = std::max(m.column_stride, impl->sizes[last - 1]);
  m.batch_stride = impl->dim > 2 ? impl->strides[0] : 0;
  if (transposed) std::swap(m.row_stride, m.column_stride);
  return m;
}

}  // namespace

Activation::Activation(const KernelArgs& args) : dtype_(args.in(0).dtype()) {
  if (args.call.op.id != OpId::linear_fused) return;
  const auto& attrs = args.attrs<ops::linear_fused_attrs>();
  if (attrs.cap) {
    op_ = OpId::hardtanh;
    limits_.max_val = *attrs.cap;
  } else {
    op_ = attrs.activation == "relu"   ? OpId::relu
          : attrs.activation == "gelu" ? OpId::gelu_erf
                                       : OpId::gelu_tanh;
  }
}

void Activation::apply(void* values, std::int64_t rows, std::int64_t columns,
                       std::int64_t stride) const {
  if (!op_) return;
  if (columns == stride) {
    columns *= rows;
    rows = 1;
  }
  const ElementwiseLoop loop = elementwise_loops[static_cast<int>(*op_)][static_cast<int>(dtype_)];
  const auto size = static_cast<std::int64_t>(size_of(dtype_));
  const std::int64_t steps[] = {size, size};
  for (std::int64_t row = 0; row < rows; ++row) {
    char* begin = static_cast<char*>(values) + row * stride * size;
    char* const result_and_input[] = {begin, begin};
    loop(attrs(), columns, result_and_input, steps, Reach{});
  }
}

MatmulProblem matmul_problem(const KernelArgs& args) {
  const Tensor& a = args.in(0);
  const Tensor& b = args.in(1);
  MatmulProblem p;
  p.activation = Activation(args);
  p.dtype = a.dtype();
  p.out = args.out().impl()->data;
  if (is_linear(args.call.op.id)) {
    const std::int64_t in = b.sizes()[1], out = b.sizes()[0];
    std::int64_t rows = 1;
    for (int d = 0; d + 1 < a.dim(); ++d) rows *= a.sizes()[d];
    p.batch = 1;
    p.m = rows;
    p.n = out;
    p.k = in;
    if (args.has(2)) {
      p.copies[2] = args.in(2).contiguous();
      p.bias = p.copies[2].impl()->data;
    }
    p.right = matrices_of(b, true, p.copies[1]);
    if (a.dim() == 2) {
      p.left = matrices_of(a, false, p.copies[0]);
    } else {
      p.copies[0] = a.contiguous();
      p.left = {p.copies[0].impl()->data, in, 1, 0};
    }
    return p;
  }
  const int last = a.dim() - 1;
  p.batch = last == 2 ? a.sizes()[0] : 1;
  p.m = a.sizes()[last - 1];
  p.k = a.sizes()[last];
  p.n = b.sizes()[last];
  p.left = matrices_of(a, false, p.copies[0]);
  p.right = matrices_of(b, false, p.copies[1]);
  // A vector from the right is one from the left, if the matrix is read along its rows then.
  if (p.n == 1 && p.m > 1 && p.left.columns_dense()) {
    std::swap(p.m, p.n);
    std::swap(p.left, p.right);
    for (Matrices* side : {&p.left, &p.right}) std::swap(side->row_stride, side->column_stride);
  }
  return p;
}

MatmulCut::MatmulCut(bool rows, std::int64_t extent, std::int64_t wanted, std::int64_t granule)
    : by_rows(rows) {
  wanted = std::clamp<std::int64_t>(wanted, 1, kMostPieces);
  step = base::divide_up(base::divide_up(extent, wanted), granule) * granule;
  pieces = base::divide_up(extent, step);
}

}  // namespace facula::cpu
