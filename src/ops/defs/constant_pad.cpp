#include "ops/attrs/constant_pad.h"

#include <cmath>

#include <facula/ops.h>

#include "core/number_range.h"
#include "ops/schema/channels.h"
#include "ops/schema/op_def.h"

namespace facula::ops {

OpDef define_constant_pad() {
  return {
      .signature = "constant_pad(Tensor self, int[] pad, float value=0) -> Tensor",
      .doc =
          "self with `value` around it: pad names the widths before and after the last dimension, "
          "then the last but one...; negative widths cut off. At most 4 dimensions.  self: [*] -> "
          "[*] with dimensions longer by their widths.",
      .infer =
          [](Infer& c) {
            const auto& a = c.attrs<constant_pad_attrs>();
            Dims sizes(c.in(0).sizes());
            check<ValueError>(a.pad.size() % 2 == 0 && a.pad.size() / 2 <= sizes.size(),
                              "pad: {} must name two widths per dimension, for at most the {} "
                              "dimensions of the tensor",
                              a.pad, sizes.size());
            for (int i = 0; i < a.pad.size(); i += 2) {
              std::int64_t& size = sizes[sizes.size() - 1 - i / 2];
              const bool cut_fits = std::min<std::int64_t>(a.pad[i], 0) >= -size &&
                                    std::min<std::int64_t>(a.pad[i + 1], 0) >= -size;
              const bool fits = cut_fits && !__builtin_add_overflow(size, a.pad[i], &size) &&
                                !__builtin_add_overflow(size, a.pad[i + 1], &size) && size >= 0;
              check<ShapeError>(fits, "pad: widths {} leave no valid size of {}", a.pad,
                                c.in(0).sizes());
            }
            check_fits(a.value, c.in(0).dtype(), "pad");
            c.out(c.in(0).dtype(), sizes, channel_format(c.in(0)));
          },
      .gradient =
          [](GradientContext& g) {
            Dims pad = g.attrs<constant_pad_attrs>().pad;
            for (std::int64_t& width : pad) width = -width;
            g.set(0, constant_pad(g.grad(), pad));
          },
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3}), Dims{1, 2}});
            s.add({s.normal({2, 3, 4, 4}), Dims{1, 1, 2, 0}, 0.5});
            s.add({s.normal({4, 5}), Dims{-1, 2, 1, -2}});
            s.add({s.normal({3}), Dims{}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), Dims{1}}, "two widths per dimension");
            e.fails({e.normal({3}), Dims{1, 1, 1, 1}}, "two widths per dimension");
            e.fails({e.normal({3}), Dims{-2, -2}}, "no valid size");
            e.fails({e.integers({3}, 0, 5).to(kUInt8), Dims{1, 1}, 300}, "300 does not fit uint8");
            e.fails({e.integers({3}, 0, 5).to(kInt32), Dims{1, 1}, 1e20}, "does not fit int32");
            e.fails({e.integers({3}, 0, 5), Dims{1, 1}, std::nan("")}, "does not fit int64");
          },
  };
}

}  // namespace facula::ops
