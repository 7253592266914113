// Convolutions of images of very few pixels, such as the 2x2 ones at the end of a network, as
// products with one dense matrix.
//
// Every pixel of the image meets nearly every pixel of the result then, through a tap of its own.
// Written down as a matrix of all pixels and channels by all pixels and channels, the weights
// repeat themselves and there are few zeros; what the matrix product gains is far more.
#include "backends/cpu/convolution.h"

#include <algorithm>

#include <facula/ops.h>

#include "backends/cpu/registration.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"

namespace facula::cpu {
namespace {

/// Pairs of a pixel of the image and one of the result, at most.
constexpr std::int64_t kMostPairs = 16;
/// The matrix is written for each call: that must be little beside the products.
constexpr std::int64_t kFewestImages = 32;
/// Below, a product of matrices has no advantage.
constexpr std::int64_t kFewestChannels = 32;
/// Output channels whose weights make a slice.
constexpr std::int64_t kSliceChannels = 16;

/// The taps through which pixels of the image and pixels of the result meet.
class Pairs {
 public:
  explicit Pairs(const ConvShape& s) : inputs(s.h * s.w), outputs(s.oh * s.ow) {
    if (inputs * outputs > kMostPairs) return;
    for (std::int64_t out = 0; out < outputs; ++out) {
      for (std::int64_t in = 0; in < inputs; ++in) {
        const std::int64_t i = tap(in / s.w, out / s.ow, s.kh, s.stride_h, s.pad_h, s.dilation_h);
        const std::int64_t j = tap(in % s.w, out % s.ow, s.kw, s.stride_w, s.pad_w, s.dilation_w);
        const bool meet = i >= 0 && j >= 0;
        taps_[out * inputs + in] = meet ? i * s.kw + j : -1;
        meeting_ += meet ? 1 : 0;
      }
    }
  }
  /// Negative if the pixels do not meet.
  std::int64_t tap(std::int64_t in, std::int64_t out) const { return taps_[out * inputs + in]; }
  /// At least half of the matrix is not zero.
  bool dense() const { return 2 * meeting_ >= inputs * outputs; }

  std::int64_t inputs, outputs;

 private:
  static std::int64_t tap(std::int64_t in, std::int64_t out, std::int64_t taps, std::int64_t stride,
                          std::int64_t padding, std::int64_t dilation) {
    const std::int64_t distance = in + padding - out * stride;
    const bool meet = distance >= 0 && distance % dilation == 0 && distance / dilation < taps;
    return meet ? distance / dilation : -1;
  }

  std::int64_t taps_[kMostPairs] = {};
  std::int64_t meeting_ = 0;
};

/// Calls body(first, last) for groups of output channels, on all threads.
template <class Body>
void for_channels(std::int64_t channels, Body body) {
  base::parallel_for(base::divide_up(channels, kSliceChannels), [&](std::int64_t slice) {
    const std::int64_t first = slice * kSliceChannels;
    body(first, std::min(first + kSliceChannels, channels));
  });
}

/// The weights as [pixels of the result * OC, pixels of the image * C].
Tensor dense_weights(const Tensor& given, const ConvShape& s, const Pairs& pairs) {
  const Tensor weight = given.detach().contiguous();
  Tensor matrix = new_tensor({pairs.outputs * s.oc, pairs.inputs * s.c}, kFloat32, kCPU);
  const float* from = weight.impl()->typed<float>();
  float* to = matrix.impl()->typed<float>();
  const std::int64_t taps = s.kh * s.kw;
  for_channels(s.oc, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t k = first; k < last; ++k) {
      for (std::int64_t out = 0; out < pairs.outputs; ++out) {
        float* row = to + (out * s.oc + k) * pairs.inputs * s.c;
        for (std::int64_t in = 0; in < pairs.inputs; ++in, row += s.c) {
          const std::int64_t tap = pairs.tap(in, out);
          const float* weights = from + k * s.c * taps + std::max<std::int64_t>(tap, 0);
          for (std::int64_t c = 0; c < s.c; ++c) row[c] = tap < 0 ? 0 : weights[c * taps];
        }
      }
    }
  });
  return matrix;
}

/// The gradient of the weights from that of the matrix: each adds up the places where it stands.
void add_up_taps(const Tensor& matrix, const ConvShape& s, const Pairs& pairs, const Tensor& out) {
  const bool contiguous = out.is_contiguous();
  const Tensor result = contiguous ? out : new_tensor(out.sizes(), kFloat32, kCPU);
  const float* from = matrix.impl()->typed<float>();
  float* to = result.impl()->typed<float>();
  const std::int64_t taps = s.kh * s.kw;
  for_channels(s.oc, [&](std::int64_t first, std::int64_t last) {
    std::fill(to + first * s.c * taps, to + last * s.c * taps, 0.0f);
    for (std::int64_t k = first; k < last; ++k) {
      for (std::int64_t out_pixel = 0; out_pixel < pairs.outputs; ++out_pixel) {
        const float* row = from + (out_pixel * s.oc + k) * pairs.inputs * s.c;
        for (std::int64_t in = 0; in < pairs.inputs; ++in, row += s.c) {
          const std::int64_t tap = pairs.tap(in, out_pixel);
          if (tap < 0) continue;
          float* weights = to + k * s.c * taps + tap;
          for (std::int64_t c = 0; c < s.c; ++c) weights[c * taps] += row[c];
        }
      }
    }
  });
  if (!contiguous) out.copy_(result);
}

/// Images as rows of pixels of channels.
Tensor rows_of(const Tensor& images) {
  const Tensor pixels = images.detach().permute({0, 2, 3, 1}).contiguous();
  return pixels.view({images.size(0), images.numel() / images.size(0)});
}

void write_rows(const Tensor& rows, const Tensor& out) {
  const IntList sizes = out.sizes();
  out.copy_(rows.view({sizes[0], sizes[2], sizes[3], sizes[1]}).permute({0, 3, 1, 2}));
}

Refusal refuse(const KernelArgs& args) {
  if (args.in(0).dtype() != kFloat32) return "only float32";
  const ConvShape s = conv_shape_of(args);
  if (s.groups != 1) return "groups";
  if (s.kh * s.kw == 1) return "a matrix product";
  if (s.h * s.w * s.oh * s.ow > kMostPairs) return "too many pixels";
  if (s.n < kFewestImages) return "few images";
  if (std::min(s.c, s.oc) < kFewestChannels) return "few channels";
  if (!Pairs(s).dense()) return "most pixels do not meet";
  return refuse_epilogue(args);
}

void run(const KernelArgs& args) {
  const ConvShape s = conv_shape_of(args);
  if (run_if_empty(args, s)) return;
  const Pairs pairs(s);
  switch (conv_kind(args)) {
    case ConvKind::forward: {
      const Tensor bias = args.has(2) ? repeat(args.in(2).detach(), {pairs.outputs}) : Tensor();
      write_rows(linear(rows_of(args.in(0)), dense_weights(args.in(1), s, pairs), bias),
                 args.out());
      return ConvEpilogue(args, kChannelsLast)
          .finish(args.out().impl()->typed<float>(), 0, s.n * pairs.outputs);
    }
    case ConvKind::backward_input:
      return write_rows(mm(rows_of(args.in(0)), dense_weights(args.in(1), s, pairs)), args.out());
    case ConvKind::backward_weight:
      return add_up_taps(mm(rows_of(args.in(0)).permute({1, 0}), rows_of(args.in(1))), s, pairs,
                         args.out());
  }
}

}  // namespace

void register_conv2d_dense() {
  for (OpId op : kConvolutions) {
    add(op, {"dense matrix", refuse, run});
  }
}

}  // namespace facula::cpu
