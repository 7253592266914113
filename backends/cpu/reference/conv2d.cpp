// Convolutions as plain loops in double.
#include "backends/cpu/convolution.h"
#include "backends/cpu/registration.h"
#include "base/thread_pool.h"

namespace facula::cpu {
namespace {

/// Calls f(input index, weight index, output index) for all products of image n.
template <class F>
void for_each_product(const ConvShape& s, std::int64_t n, std::int64_t o, F f) {
  const std::int64_t in_group = s.c / s.groups, group = o / (s.oc / s.groups);
  for (std::int64_t y = 0; y < s.oh; ++y) {
    for (std::int64_t x = 0; x < s.ow; ++x) {
      for (std::int64_t c = 0; c < in_group; ++c) {
        for (std::int64_t i = 0; i < s.kh; ++i) {
          for (std::int64_t j = 0; j < s.kw; ++j) {
            const std::int64_t row = y * s.stride_h - s.pad_h + i * s.dilation_h;
            const std::int64_t column = x * s.stride_w - s.pad_w + j * s.dilation_w;
            if (row < 0 || row >= s.h || column < 0 || column >= s.w) continue;
            f(((n * s.c + group * in_group + c) * s.h + row) * s.w + column,
              ((o * in_group + c) * s.kh + i) * s.kw + j, ((n * s.oc + o) * s.oh + y) * s.ow + x);
          }
        }
      }
    }
  }
}

void run(const KernelArgs& args) {
  const ConvShape s = conv_shape_of(args);
  const ConvKind kind = conv_kind(args);
  const Tensor a = args.in(0).to(kFloat64).contiguous();
  const Tensor b = args.in(1).to(kFloat64).contiguous();
  const Tensor out = zeros(args.out().sizes(), kFloat64);
  if (args.has(2)) out.copy_(reshape(args.in(2), {1, s.oc, 1, 1}));
  const double* left = a.impl()->typed<double>();
  const double* right = b.impl()->typed<double>();
  double* to = out.impl()->typed<double>();
  // Slices own parts of the result.
  const bool by_channel = kind == ConvKind::backward_weight;
  base::parallel_for(by_channel ? s.oc : s.n, [&](std::int64_t slice) {
    for (std::int64_t other = 0; other < (by_channel ? s.n : s.oc); ++other) {
      const std::int64_t n = by_channel ? other : slice, o = by_channel ? slice : other;
      for_each_product(s, n, o, [&](std::int64_t x, std::int64_t w, std::int64_t y) {
        switch (kind) {
          case ConvKind::forward: to[y] += left[x] * right[w]; break;
          case ConvKind::backward_input: to[x] += left[y] * right[w]; break;
          case ConvKind::backward_weight: to[w] += left[y] * right[x]; break;
        }
      });
    }
  });
  args.out().copy_(out);
}

}  // namespace

void register_conv2d_reference() {
  for (OpId op : {OpId::conv2d, OpId::conv2d_backward_input, OpId::conv2d_backward_weight}) {
    add(op, {"reference", nullptr, run});
  }
}

}  // namespace facula::cpu
