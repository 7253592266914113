#include "ops/attrs/cat.h"

#include <facula/ops.h>

#include "core/promotion.h"
#include "core/tensor_impl.h"
#include "ops/schema/channels.h"
#include "ops/schema/op_def.h"

namespace facula::ops {
namespace {

/// PyTorch ignores empty 1-d tensors among others of more dimensions.
bool counts(const Tensor& tensor) { return tensor.dim() != 1 || tensor.numel() > 0; }

void infer(Infer& c) {
  const auto tensors = c.list(0);
  check<ValueError>(!tensors.empty(), "cat: the list of tensors is empty");
  const Tensor* first = nullptr;
  for (const Tensor* tensor : tensors) {
    check<ValueError>(tensor->defined(), "cat: a tensor of the list is undefined");
    check<ShapeError>(tensor->dim() > 0, "cat: 0-d tensors cannot be joined; use stack");
    if (!first || (!counts(*first) && counts(*tensor))) first = tensor;
  }
  const int dim = wrap_dim(c.attrs<cat_attrs>().dim, first->dim(), "cat");
  Dims sizes(first->sizes());
  sizes[dim] = 0;
  DType dtype = tensors[0]->dtype();
  bool channels_last = true;
  for (const Tensor* tensor : tensors) {
    dtype = promote_types(dtype, tensor->dtype());
    if (!counts(*tensor)) continue;
    check<ShapeError>(tensor->dim() == first->dim(),
                      "cat: tensors of size {} and {} differ in the number of dimensions",
                      first->sizes(), tensor->sizes());
    for (int d = 0; d < sizes.size(); ++d) {
      check<ShapeError>(d == dim || tensor->sizes()[d] == sizes[d],
                        "cat: sizes {} and {} must agree except in dimension {}", first->sizes(),
                        tensor->sizes(), dim);
    }
    check<ShapeError>(!__builtin_add_overflow(sizes[dim], tensor->sizes()[dim], &sizes[dim]),
                      "cat: dimension {} of the result exceeds 2^63", dim);
    channels_last &= is_channels_last(*tensor);
  }
  c.out(dtype, sizes, channels_last ? kChannelsLast : kContiguous);
}

void gradient(GradientContext& g) {
  const int dim = wrap_dim(g.attrs<cat_attrs>().dim, g.grad().dim(), "cat");
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < g.input_count(); ++i) {
    const Tensor input = g.input(i);
    const bool joined = input.dim() == g.grad().dim();
    const std::int64_t end = begin + (joined ? input.sizes()[dim] : 0);
    if (g.needs(i)) {
      const DType dtype = gradient_dtype(input.dtype());
      g.set(i, joined ? slice(g.grad(), dim, begin, end).to(dtype)
                      : zeros(input.sizes(), {dtype, input.device()}));
    }
    begin = end;
  }
}

}  // namespace

OpDef define_cat() {
  return {
      .signature = "cat(Tensor[] tensors, int dim=0) -> Tensor",
      .doc =
          "The tensors one behind the other along dim; other sizes must agree. The dtype is the "
          "promoted one.  tensors: [*] each -> [*] with their sizes in dim added up.",
      .infer = infer,
      .gradient = gradient,
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({std::vector<Tensor>{s.normal({2, 3}), s.normal({4, 3})}});
            s.add({std::vector<Tensor>{s.normal({2, 3}), s.normal({2, 1}), s.normal({2, 2})}, -1});
            s.add({std::vector<Tensor>{s.normal({2, 3}), s.normal({0})}, 1});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({std::vector<Tensor>{}}, "is empty");
            e.fails({std::vector<Tensor>{e.normal({2, 3}), e.normal({2, 4})}}, "must agree");
            e.fails({std::vector<Tensor>{e.normal({2, 3}), e.normal({3})}}, "number of dimensions");
            e.fails({std::vector<Tensor>{e.normal({})}}, "use stack");
          },
  };
}

}  // namespace facula::ops
