// Basic indexing: chains of view ops.
#include <span>

#include <facula/tensor.h>

#include "base/check.h"
#include "ops/schema/in_call.h"

namespace facula {
namespace {

/// Dimensions that an index names; the ellipsis stands for the others.
int named_dims(std::span<const Index> indices, const Tensor& self) {
  int named = 0, ellipses = 0;
  for (const Index& index : indices) {
    named += index.kind == Index::Kind::integer || index.kind == Index::Kind::slice;
    ellipses += index.kind == Index::Kind::ellipsis;
  }
  check<IndexError>(ellipses <= 1, "index: an index may contain one Ellipsis, not {}", ellipses);
  check<IndexError>(named <= self.dim(),
                    "index: {} integers and slices for a tensor of size {}; give at most one per "
                    "dimension",
                    named, self.sizes());
  return named;
}

Tensor basic_index(const Tensor& self, std::span<const Index> indices) {
  check<ValueError>(self.defined(), "index: the tensor is undefined; give it a value first");
  const int skipped = self.dim() - named_dims(indices, self);
  Tensor result = self;
  int dim = 0;
  for (const Index& index : indices) {
    switch (index.kind) {
      case Index::Kind::integer: result = facula::select(result, dim, index.integer); break;
      case Index::Kind::slice: {
        const Slice& range = index.slice;
        result = facula::slice(result, dim++, range.start, range.stop, range.step);
        break;
      }
      case Index::Kind::none: result = facula::unsqueeze(result, dim++); break;
      case Index::Kind::ellipsis: dim += skipped; break;
    }
  }
  return result;
}

const Tensor& put(const Tensor& self, std::span<const Index> indices, const Tensor& value) {
  in_call("index_put_", {&self, &value}, [&] { basic_index(self, indices).copy_(value); });
  return self;
}

}  // namespace

Tensor Tensor::operator[](std::int64_t i) const { return facula::select(*this, 0, i); }

Tensor Tensor::index(std::initializer_list<Index> indices) const {
  return basic_index(*this, {indices.begin(), indices.size()});
}

Tensor Tensor::index(const std::vector<Index>& indices) const {
  return basic_index(*this, indices);
}

const Tensor& Tensor::index_put_(std::initializer_list<Index> indices, const Tensor& value) const {
  return put(*this, {indices.begin(), indices.size()}, value);
}
const Tensor& Tensor::index_put_(const std::vector<Index>& indices, const Tensor& value) const {
  return put(*this, indices, value);
}

}  // namespace facula
