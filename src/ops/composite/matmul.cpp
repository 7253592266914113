#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"
#include "ops/schema/shape.h"

namespace facula {
namespace {

/// Batches of matrices with broadcast leading dimensions, as one bmm.
Tensor batched(const Tensor& a, const Tensor& b) {
  const IntList as = a.sizes(), bs = b.sizes();
  const int ra = a.dim(), rb = b.dim();
  const Dims batch =
      broadcast_sizes({as.data(), as.size() - 2}, {bs.data(), bs.size() - 2}, "matmul");
  std::int64_t count = 1;
  for (std::int64_t size : batch) count *= size;
  const auto stacked = [&](const Tensor& x) {
    Dims sizes = batch;
    const std::int64_t rows = x.size(-2), columns = x.size(-1);
    sizes.push_back(rows);
    sizes.push_back(columns);
    return reshape(expand(x, sizes), {count, rows, columns});
  };
  Dims result = batch;
  result.push_back(as[ra - 2]);
  result.push_back(bs[rb - 1]);
  return reshape(bmm(stacked(a), stacked(b)), result);
}

/// Of operands whose sizes fit.
Tensor product_of(const Tensor& self, const Tensor& other) {
  const int ra = self.dim(), rb = other.dim();
  const std::int64_t inner = self.size(-1);
  if (ra == 1) {
    const Tensor product = product_of(reshape(self, {1, inner}), other);
    Dims sizes = product.sizes();
    sizes.erase(rb == 1 ? 0 : sizes.size() - 2);
    return reshape(product, sizes);
  }
  if (rb == 1) {
    const Tensor product = product_of(self, reshape(other, {inner, 1}));
    Dims sizes = product.sizes();
    sizes.erase(sizes.size() - 1);
    return reshape(product, sizes);
  }
  if (ra == 2 && rb == 2) return mm(self, other);
  if (rb == 2) return linear(self, permute(other, {1, 0}));
  return batched(self, other);
}

}  // namespace

Tensor matmul(const Tensor& self, const Tensor& other) {
  check_defined("matmul", self, other);
  const int ra = self.dim(), rb = other.dim();
  check<ShapeError>(ra > 0 && rb > 0,
                    "matmul: sizes are {} and {}; use mul for numbers and 0-d tensors",
                    self.sizes(), other.sizes());
  const std::int64_t inner = other.size(rb == 1 ? 0 : -2);
  check<ShapeError>(self.size(-1) == inner,
                    "matmul: sizes {} and {} do not fit; the last dimension of the first must "
                    "equal the {} of the second",
                    self.sizes(), other.sizes(), rb == 1 ? "size" : "last but one");
  return in_call("matmul", {&self, &other}, [&] { return product_of(self, other); });
}

namespace ops {

CompositeDef define_matmul() {
  return {
      .signature = "matmul(Tensor self, Tensor other) -> Tensor",
      .doc =
          "Product of vectors, matrices or batches of matrices, with PyTorch's rules: a vector "
          "counts as a row on the left and a column on the right; leading dimensions broadcast.  "
          "self: [*, M, K] or [K], other: [*, K, N] or [K] -> [*, M, N], without M or N for a "
          "vector.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3}), s.normal({3})});
            s.add({s.normal({2, 3}), s.normal({3})});
            s.add({s.normal({3}), s.normal({3, 2})});
            s.add({s.normal({3}), s.normal({4, 3, 2})});
            s.add({s.normal({2, 3}), s.normal({3, 4})});
            s.add({s.normal({5, 2, 3}), s.normal({3, 4})});
            s.add({s.normal({5, 2, 3}), s.normal({3})});
            s.add({s.normal({2, 1, 2, 3}), s.normal({4, 3, 2})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), e.normal({2, 3})}, "do not fit");
            e.fails({e.normal({}), e.normal({2})}, "use mul");
            e.fails({e.normal({2, 2, 3}), e.normal({3, 3, 4})}, "broadcast");
          },
  };
}

}  // namespace ops
}  // namespace facula
