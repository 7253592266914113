// Convolutions as plain loops in double. Operands lie so that the innermost loop, over channels,
// goes through consecutive memory: random problems by the thousand are compared with this.
#include "backends/cpu/convolution.h"
#include "backends/cpu/registration.h"
#include "base/thread_pool.h"

namespace facula::cpu {
namespace {

/// to[i] += factor * from[i]
void add_scaled(double* to, double factor, const double* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

/// Calls f(input pixel, tap, output pixel) for all that meet in image n.
template <class F>
void for_each_tap(const ConvShape& s, std::int64_t n, F f) {
  for (std::int64_t y = 0; y < s.oh; ++y) {
    for (std::int64_t x = 0; x < s.ow; ++x) {
      for (std::int64_t i = 0; i < s.kh; ++i) {
        for (std::int64_t j = 0; j < s.kw; ++j) {
          const std::int64_t row = y * s.stride_h - s.pad_h + i * s.dilation_h;
          const std::int64_t column = x * s.stride_w - s.pad_w + j * s.dilation_w;
          if (row < 0 || row >= s.h || column < 0 || column >= s.w) continue;
          f((n * s.h + row) * s.w + column, i * s.kw + j, (n * s.oh + y) * s.ow + x);
        }
      }
    }
  }
}

/// In float64, its dimensions in this order in memory.
Tensor arranged(const Tensor& tensor, const Dims& order) {
  return tensor.to(kFloat64).permute(order).contiguous();
}

const Dims kNhwc = {0, 2, 3, 1}, kNhwcToNchw = {0, 3, 1, 2};

/// to: [n, oh, ow, oc], images: [n, h, w, c], weights: [kh, kw, c / groups, oc].
void forward(const ConvShape& s, double* to, const double* images, const double* weights) {
  const std::int64_t ins = s.c / s.groups, outs = s.oc / s.groups;
  base::parallel_for(s.n, [&](std::int64_t n) {
    for_each_tap(s, n, [&](std::int64_t in, std::int64_t tap, std::int64_t out) {
      for (std::int64_t c = 0; c < s.c; ++c) {
        const std::int64_t first = c / ins * outs;
        add_scaled(to + out * s.oc + first, images[in * s.c + c],
                   weights + (tap * ins + c % ins) * s.oc + first, outs);
      }
    });
  });
}

/// to: [n, h, w, c], gradients: [n, oh, ow, oc], weights: [kh, kw, oc, c / groups].
void backward_input(const ConvShape& s, double* to, const double* gradients,
                    const double* weights) {
  const std::int64_t ins = s.c / s.groups, outs = s.oc / s.groups;
  base::parallel_for(s.n, [&](std::int64_t n) {
    for_each_tap(s, n, [&](std::int64_t in, std::int64_t tap, std::int64_t out) {
      for (std::int64_t o = 0; o < s.oc; ++o) {
        add_scaled(to + in * s.c + o / outs * ins, gradients[out * s.oc + o],
                   weights + (tap * s.oc + o) * ins, ins);
      }
    });
  });
}

/// to: [oc, kh, kw, c / groups], gradients: [n, oh, ow, oc], images: [n, h, w, c].
void backward_weight(const ConvShape& s, double* to, const double* gradients,
                     const double* images) {
  const std::int64_t ins = s.c / s.groups, outs = s.oc / s.groups;
  base::parallel_for(s.oc, [&](std::int64_t o) {
    for (std::int64_t n = 0; n < s.n; ++n) {
      for_each_tap(s, n, [&](std::int64_t in, std::int64_t tap, std::int64_t out) {
        add_scaled(to + (o * s.kh * s.kw + tap) * ins, gradients[out * s.oc + o],
                   images + in * s.c + o / outs * ins, ins);
      });
    }
  });
}

void run(const KernelArgs& args) {
  const ConvShape s = conv_shape_of(args);
  const ConvKind kind = conv_kind(args);
  const bool is_weight = kind == ConvKind::backward_weight;
  const Tensor a = arranged(args.in(0), kNhwc);
  const Tensor b = arranged(args.in(1), is_weight                   ? kNhwc
                                        : kind == ConvKind::forward ? Dims{2, 3, 1, 0}
                                                                    : Dims{2, 3, 0, 1});
  const Tensor out = zeros(args.out().permute(kNhwc).sizes(), kFloat64);
  if (args.has(2)) out.copy_(args.in(2));
  const auto data = [](const Tensor& tensor) { return tensor.impl()->typed<double>(); };
  switch (kind) {
    case ConvKind::forward: forward(s, data(out), data(a), data(b)); break;
    case ConvKind::backward_input: backward_input(s, data(out), data(a), data(b)); break;
    case ConvKind::backward_weight: backward_weight(s, data(out), data(a), data(b)); break;
  }
  args.out().copy_(out.permute(kNhwcToNchw));
}

}  // namespace

void register_conv2d_reference() {
  for (OpId op : {OpId::conv2d, OpId::conv2d_backward_input, OpId::conv2d_backward_weight}) {
    add(op, {"reference", nullptr, run});
  }
}

}  // namespace facula::cpu
