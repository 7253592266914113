#include <facula/memory.h>
#include <facula/ops.h>

#include <atomic>

#include "ops/schema/channels.h"
#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"
#include "ops/schema/reshape.h"

namespace facula {
namespace {

std::atomic<std::int64_t> copies = 0;

}  // namespace

std::int64_t cpu::view_copies() { return copies.load(std::memory_order_relaxed); }

Tensor view(const Tensor& self, IntList size) {
  check_defined("view", self);
  const Dims sizes = resolve_sizes(size, self.numel(), "view");
  if (view_strides(*self.impl(), sizes)) return reshape_view(self, sizes);
  check<ShapeError>(is_channels_last(self),
                    "view: size {} is no view of a tensor of size {} and strides {}; use reshape",
                    sizes, self.sizes(), self.strides());
  copies.fetch_add(1, std::memory_order_relaxed);
  return reshape_view(self.contiguous(), sizes);
}

namespace ops {

CompositeDef define_view() {
  return {
      .signature = "view(Tensor self, int[] size) -> Tensor",
      .doc =
          "View of the same elements in another shape; one size may be -1. Where the strides do "
          "not permit it, use reshape. Of tensors in channels_last, which layers and loaders "
          "choose, it is a copy where contiguous strides would permit a view.  self: [*] -> "
          "`size`.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 6}), Dims{3, -1}});
            s.add({s.normal({2, 3}), Dims{6}});
            s.add({s.normal({2, 3, 4, 5}), Dims{2, -1}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), Dims{4}}, "has 6 elements");
            e.fails({e.normal({2, 3}), Dims{-1, -1}}, "more than one -1");
            e.fails({e.normal({2, 3}).permute({1, 0}), Dims{6}}, "is no view of");
          },
  };
}

}  // namespace ops
}  // namespace facula
