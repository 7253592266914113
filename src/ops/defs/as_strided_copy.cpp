#include "ops/attrs/as_strided_copy.h"

#include <utility>

#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/op_def.h"
#include "ops/schema/region.h"

namespace facula::ops {

OpDef define_as_strided_copy() {
  return {
      .signature =
          "as_strided_copy(Tensor self, int[] size, int[] stride, int storage_offset=0) "
          "-> Tensor",
      .doc =
          "The elements at storage_offset + i * stride[0] + j * stride[1] + ..., counted in "
          "row-major order, none twice.  self: [*] -> `size`.",
      .infer =
          [](Infer& c) {
            const auto& a = c.attrs<as_strided_copy_attrs>();
            const Tensor& self = c.in(0);
            strided_region(a.size, a.stride, a.storage_offset, self.numel(), c.op_name());
            c.out(self.dtype(), a.size);
          },
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<as_strided_copy_attrs>();
            const TensorOptions like{g.grad().dtype(), g.grad().device()};
            Tensor sum = g.take_sum(0);
            sum = sum.defined() ? sum.contiguous() : zeros(g.input(0).sizes(), like);
            // A view that was expanded shows elements several times.
            Dims once = a.size, repeated;
            for (int d = 0; d < once.size(); ++d) {
              if (a.stride[d] != 0 || once[d] == 1) continue;
              repeated.push_back(d);
              once[d] = 1;
            }
            const Tensor grad =
                repeated.empty() ? g.grad() : facula::sum(g.grad(), repeated, /*keepdim=*/true);
            if (g.higher_order()) {
              sum = as_strided_scatter(sum, grad, once, a.stride, a.storage_offset);
            } else {
              const TensorImpl& impl = *sum.impl();
              alias(impl, once, a.stride, impl.offset + a.storage_offset).add_(grad);
            }
            g.set(0, std::move(sum));
          },
      .saves = {shape_of(0)},
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), Dims{2, 3}, Dims{4, 1}});
            s.add({s.normal({3, 4}), Dims{3}, Dims{5}, 1});
            s.add({s.normal({2, 3, 2}), Dims{3, 2}, Dims{2, 6}, 1});
            s.add({s.normal({5}), Dims{}, Dims{}, 4});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), Dims{2}, Dims{1, 1}}, "2 strides for 1 dimensions");
            e.fails({e.normal({3}), Dims{2}, Dims{2}, 1}, "beyond the 3 elements");
            e.fails({e.normal({3}), Dims{2}, Dims{-1}, 1}, "negative");
            e.fails({e.normal({3}), Dims{2, 2}, Dims{1, 1}}, "more than once");
          },
  };
}

}  // namespace facula::ops
