// 1x1 convolutions of few pixels, or of images in planes, as products with the weights where they
// lie: others pack them first. So go convolutions of planes whose windows lie side by side, as the
// first one of a vision transformer does, and those of few pixels and large weights, as the last
// ones of a network for one image: the few windows are written down as rows.
#include <algorithm>
#include <vector>

#include <facula/ops.h>

#include "backends/cpu/convolution.h"
#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/ops/tap_meeting.h"
#include "backends/cpu/registration.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "runtime/dispatch.h"

namespace facula::cpu {
namespace {

/// Computes a product of matrices into `out`.
void multiply(OpId id, std::initializer_list<const Tensor*> inputs, Tensor out) {
  const auto count = static_cast<std::uint32_t>(inputs.size());
  runtime::run_into(Call{op(id), inputs.begin(), count, nullptr}, {&out, 1});
}

/// [pixels, channels], in place where one stride leads from pixel to pixel.
Tensor pixels_of(const Tensor& images) {
  return reshape(images.detach().permute({0, 2, 3, 1}), {-1, images.size(1)});
}

/// [images, channels, pixels] of contiguous images.
Tensor planes_of(const Tensor& images) {
  return images.detach().view({images.size(0), images.size(1), -1});
}

/// [outputs, inputs], or elements of a window
Tensor matrix_of(const Tensor& weight) { return reshape(weight.detach(), {weight.size(0), -1}); }

/// [images, elements of a window, windows] of images whose windows lie side by side.
Tensor patches_of(const Tensor& images, const ConvShape& s) {
  const Tensor covered = images.detach().narrow(2, 0, s.oh * s.kh).narrow(3, 0, s.ow * s.kw);
  const Tensor windows = covered.view({s.n, s.c, s.oh, s.kh, s.ow, s.kw});
  return reshape(windows.permute({0, 1, 3, 5, 2, 4}), {s.n, s.c * s.kh * s.kw, s.oh * s.ow});
}

/// The weights times the planes of each image.
void run_by_planes(const KernelArgs& args, const Tensor& planes, bool forward) {
  const Tensor weights = matrix_of(args.in(1)), left = forward ? weights : weights.t();
  const Tensor repeated = left.expand({planes.size(0), left.size(0), left.size(1)});
  multiply(OpId::bmm, {&repeated, &planes}, planes_of(args.out()));
  if (args.has(2)) args.out().add_(args.in(2).detach().view({-1, 1, 1}));
}

void run_by_pixels(const KernelArgs& args, bool forward) {
  const bool direct = args.out().is_contiguous(kChannelsLast);
  const Tensor out =
      direct ? args.out() : new_tensor(args.out().sizes(), kFloat32, kCPU, kChannelsLast);
  const Tensor pixels = pixels_of(args.in(0)).contiguous(), weights = matrix_of(args.in(1));
  if (forward) {
    const Tensor bias = args.has(2) ? args.in(2).detach() : Tensor();
    multiply(OpId::linear, {&pixels, &weights, &bias}, pixels_of(out));
    ConvEpilogue(args, kChannelsLast).finish(out.impl()->typed<float>(), 0, pixels.size(0));
  } else {
    multiply(OpId::mm, {&pixels, &weights}, pixels_of(out));
  }
  if (!direct) args.out().copy_(out);
}

void run_weight_gradient(const KernelArgs& args) {
  const Tensor gradients = pixels_of(args.in(0)).t(), pixels = pixels_of(args.in(1));
  multiply(OpId::mm, {&gradients, &pixels}, matrix_of(args.out()));
}

/// Windows of channels_last images: one of each pixel of the result, a row with an element for each
/// weight of an output. Weights next to each other are of one channel, or else of one tap.
class Windows {
 public:
  Windows(const ConvShape& s, bool channels_last_weights)
      : channels_(s.c), taps_(s.kh * s.kw), tap_by_tap_(channels_last_weights || taps_ == 1) {
    for (std::int64_t line = 0; line < s.n * s.oh; ++line) {
      for (std::int64_t x = 0; x < s.ow; ++x) add_window(s, line / s.oh, line % s.oh, x);
    }
  }

  std::int64_t count() const { return std::ssize(pixels_) / taps_; }
  std::int64_t elements() const { return channels_ * taps_; }

  /// rows = the windows of the images, 0 where they see padding.
  void gather(const float* images, float* rows) const {
    for_channels([&](std::int64_t first, std::int64_t channels) {
      alignas(64) float buffer[kMostWindowTaps * kTogether];
      for (std::int64_t window = 0; window < count(); ++window) {
        const Place place = place_of(window, first, rows, buffer);
        for (std::int64_t tap = 0; tap < taps_; ++tap) {
          const std::int64_t pixel = pixels_[window * taps_ + tap];
          float* const to = place.taps + tap * place.stride;
          if (pixel < 0) {
            std::fill_n(to, channels, 0.0f);
          } else {
            std::copy_n(images + pixel * channels_ + first, channels, to);
          }
        }
        if (tap_by_tap_) continue;
        gemm_loops<float>().transpose(buffer, kTogether, taps_, channels, place.row, taps_);
      }
    });
  }

  /// images += the rows, each element where gather() reads it.
  void scatter_add(float* rows, float* images) const {
    for_channels([&](std::int64_t first, std::int64_t channels) {
      alignas(64) float buffer[kMostWindowTaps * kTogether];
      for (std::int64_t window = 0; window < count(); ++window) {
        const Place place = place_of(window, first, rows, buffer);
        if (!tap_by_tap_) {
          gemm_loops<float>().transpose(place.row, taps_, channels, taps_, buffer, kTogether);
        }
        for (std::int64_t tap = 0; tap < taps_; ++tap) {
          const std::int64_t pixel = pixels_[window * taps_ + tap];
          if (pixel < 0) continue;
          const float* from = place.taps + tap * place.stride;
          float* const to = images + pixel * channels_ + first;
          for (std::int64_t i = 0; i < channels; ++i) to[i] += from[i];
        }
      }
    });
  }

 private:
  /// Channels of a slice.
  static constexpr std::int64_t kTogether = 32;
  /// Some channels of a window: its place in the row, and of the first tap where taps are apart.
  struct Place {
    float* row;
    float* taps;
    std::int64_t stride;  ///< from tap to tap
  };

  Place place_of(std::int64_t window, std::int64_t first, float* rows, float* buffer) const {
    float* const row = rows + window * elements() + first * (tap_by_tap_ ? 1 : taps_);
    return tap_by_tap_ ? Place{row, row, channels_} : Place{row, buffer, kTogether};
  }

  void add_window(const ConvShape& s, std::int64_t image, std::int64_t y, std::int64_t x) {
    for (std::int64_t i = 0; i < s.kh; ++i) {
      const TapMeeting row(i, s.dilation_h, s.stride_h, s.pad_h, s.h, s.oh);
      for (std::int64_t j = 0; j < s.kw; ++j) {
        const TapMeeting column(j, s.dilation_w, s.stride_w, s.pad_w, s.w, s.ow);
        const bool inside = row.contains(y) && column.contains(x);
        const std::int64_t line = image * s.h + row.input(y);
        pixels_.push_back(inside ? line * s.w + column.input(x) : -1);
      }
    }
  }

  /// Calls body(first, channels) for slices of the channels, on all threads.
  template <class Body>
  void for_channels(Body body) const {
    base::parallel_for(base::divide_up(channels_, kTogether), [&](std::int64_t slice) {
      const std::int64_t first = slice * kTogether;
      body(first, std::min(kTogether, channels_ - first));
    });
  }

  std::int64_t channels_, taps_;
  bool tap_by_tap_;
  std::vector<std::int64_t> pixels_;  ///< of each tap of each window; -1 is padding
};

/// The weights of each output as a row, where they lie or copied.
Tensor weight_rows(const Tensor& weight) {
  const bool last = weight.is_contiguous(kChannelsLast);
  return (last ? weight.permute({0, 2, 3, 1}) : weight.contiguous()).view({weight.size(0), -1});
}

void run_by_windows(const KernelArgs& args, const ConvShape& s) {
  const ConvKind kind = conv_kind(args);
  const bool of_weights = kind == ConvKind::backward_weight;
  const Tensor weight = (of_weights ? args.out() : args.in(1)).detach();
  const Windows windows(s, weight.is_contiguous(kChannelsLast));
  const Tensor rows = new_tensor({windows.count(), windows.elements()}, kFloat32, kCPU);
  float* const values = rows.impl()->typed<float>();
  if (kind != ConvKind::backward_input) {
    const Tensor images = args.in(of_weights ? 1 : 0).detach().contiguous(kChannelsLast);
    windows.gather(images.impl()->typed<float>(), values);
  }
  if (of_weights) {
    const Tensor gradients = pixels_of(args.in(0)).t();
    const bool direct = weight.is_contiguous() || weight.is_contiguous(kChannelsLast);
    const Tensor out = direct ? weight : new_tensor(weight.sizes(), kFloat32, kCPU);
    multiply(OpId::mm, {&gradients, &rows}, weight_rows(out));
    if (!direct) args.out().copy_(out);
    return;
  }
  const bool direct = args.out().is_contiguous(kChannelsLast);
  const Tensor out =
      direct ? args.out() : new_tensor(args.out().sizes(), kFloat32, kCPU, kChannelsLast);
  const Tensor weights = weight_rows(weight);
  if (kind == ConvKind::forward) {
    const Tensor bias = args.has(2) ? args.in(2).detach() : Tensor();
    multiply(OpId::linear, {&rows, &weights, &bias}, pixels_of(out));
    ConvEpilogue(args, kChannelsLast).finish(out.impl()->typed<float>(), 0, windows.count());
  } else {
    const Tensor gradients = pixels_of(args.in(0));
    multiply(OpId::mm, {&gradients, &weights}, rows);
    out.zero_();
    windows.scatter_add(values, out.impl()->typed<float>());
  }
  if (!direct) args.out().copy_(out);
}

Refusal refuse(const KernelArgs& args) {
  if (by_matrix(args, conv_shape_of(args)) == ByMatrix::no) return "better otherwise";
  return refuse_epilogue(args);
}

void run(const KernelArgs& args) {
  const ConvShape s = conv_shape_of(args);
  if (run_if_empty(args, s)) return;
  const ConvKind kind = conv_kind(args);
  const ByMatrix way = by_matrix(args, s);
  if (way == ByMatrix::windows) return run_by_windows(args, s);
  if (kind == ConvKind::backward_weight) return run_weight_gradient(args);
  const bool forward = kind == ConvKind::forward;
  switch (way) {
    case ByMatrix::planes: return run_by_planes(args, planes_of(args.in(0)), forward);
    case ByMatrix::patches: return run_by_planes(args, patches_of(args.in(0), s), forward);
    default: return run_by_pixels(args, forward);
  }
}

}  // namespace

void register_conv2d_matrix() {
  for (OpId op : kConvolutions) {
    add(op, {"matrix product", refuse, run});
  }
}

}  // namespace facula::cpu
