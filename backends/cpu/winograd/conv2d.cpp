// Convolutions with 3x3 weights and stride 1 or 2 by Winograd's algorithm: registration, and the
// conversion of the op's operands.
#include <atomic>
#include <utility>

#include <facula/backends.h>

#include "backends/cpu/registration.h"
#include "backends/cpu/winograd/winograd.h"
#include "base/env.h"

namespace facula::backends::cpu {
namespace {

std::atomic<bool>& enabled_flag() {
  static std::atomic<bool> enabled{base::env_bool("FACULA_WINOGRAD").value_or(true)};
  return enabled;
}

}  // namespace

bool winograd() { return enabled_flag().load(std::memory_order_relaxed); }
void winograd(bool enabled) { enabled_flag().store(enabled, std::memory_order_relaxed); }

}  // namespace facula::backends::cpu

namespace facula::cpu {
namespace {

using winograd::Correlation;

/// With fewer channels the transforms cost more than the products they save.
constexpr std::int64_t kFewestChannels = 16;
/// With fewer tiles the transform of the weights is not worth it.
constexpr std::int64_t kFewestTiles = 16;

/// Images of more elements than this, together, come from memory each time they are read.
constexpr std::int64_t kLargeImages = 1 << 20;

/// Converting large contiguous images to channels_last and back takes longer than what is saved
/// with few channels.
bool conversion_too_dear(const KernelArgs& args, const ConvShape& s) {
  return args.in(0).suggest_memory_format() != kChannelsLast &&
         s.n * (s.c * s.h * s.w + s.oc * s.oh * s.ow) > kLargeImages &&
         s.c * s.oc < 24 * (s.c + s.oc);
}

Correlation correlation_of(const ConvShape& s) {
  return {s.n, s.h, s.w, s.c, s.oh, s.ow, s.oc, s.pad_h, s.pad_w, s.stride_h, false};
}

/// The gradient of the input, from that of the output.
Correlation input_gradient_of(const ConvShape& s) {
  return {s.n, s.oh, s.ow, s.oc, s.h, s.w, s.c, s.pad_h, s.pad_w, s.stride_h, true};
}

/// Products for one tile.
std::int64_t products_of_tile(const Correlation& s) {
  std::int64_t products = 0;
  for (std::int64_t i = 0; i < s.parts(); ++i) products += s.part(i).filter.positions;
  return products;
}

Refusal refuse(const KernelArgs& args) {
  if (!backends::cpu::winograd()) return "switched off";
  if (args.in(0).dtype() != kFloat32) return "only float32";
  const ConvShape s = conv_shape_of(args);
  if (s.kh != winograd::kTaps || s.kw != winograd::kTaps) return "weights are not 3x3";
  if (s.stride_h != s.stride_w || s.stride_h > 2) return "stride is neither 1 nor 2";
  if (s.dilation_h != 1 || s.dilation_w != 1) return "dilation is not 1";
  if (s.groups != 1) return "groups";
  if (s.pad_h >= winograd::kTaps || s.pad_w >= winograd::kTaps) return "padding beyond the weights";
  if (s.c < kFewestChannels || s.oc < kFewestChannels) return "too few channels";
  const Correlation work =
      conv_kind(args) == ConvKind::backward_input ? input_gradient_of(s) : correlation_of(s);
  if (work.tiles() < kFewestTiles) return "too few pixels";
  // A tile costs as much whatever part of it lies outside the image.
  const std::int64_t computed = work.tiles() * products_of_tile(work);
  const std::int64_t direct = s.n * s.oh * s.ow * winograd::kAllTaps;
  if (computed * (s.stride_h == 1 ? 8 : 5) > direct * 4)
    return "small images: most of the tiles would lie outside";
  if (conversion_too_dear(args, s)) return "contiguous images with few channels";
  return nullptr;
}

/// Weights [outputs, channels, 3, 3] in one of the layouts that the algorithm reads and writes.
template <class T>
winograd::Taps<T> taps_of(const Tensor& weight) {
  const IntList strides = weight.strides();
  return {weight.impl()->typed<float>(), strides[1], strides[0], strides[3]};
}

/// Correlates in(0) with the weights in(1).
void run_correlation(const KernelArgs& args, const Correlation& shape) {
  const Tensor images = args.in(0).contiguous(kChannelsLast);
  const bool dense = args.in(1).is_contiguous() || args.in(1).is_contiguous(kChannelsLast);
  const Tensor weight = dense ? args.in(1) : args.in(1).contiguous();
  winograd::Taps<const float> taps = taps_of<const float>(weight);
  if (shape.transposed) std::swap(taps.channel_stride, taps.output_stride);
  const Tensor bias = args.has(2) ? args.in(2).contiguous() : Tensor();
  const bool convert = !args.out().is_contiguous(kChannelsLast);
  const Tensor result =
      convert ? new_tensor(args.out().sizes(), kFloat32, kCPU, kChannelsLast) : args.out();
  correlate(shape, images.impl()->typed<float>(), taps,
            bias.defined() ? bias.impl()->typed<float>() : nullptr, result.impl()->typed<float>());
  if (convert) args.out().copy_(result);
}

void run_weight_gradient(const KernelArgs& args, const Correlation& shape) {
  const Tensor gradient = args.in(0).contiguous(kChannelsLast);
  const Tensor images = args.in(1).contiguous(kChannelsLast);
  const Tensor& out = args.out();
  const bool dense = out.is_contiguous() || out.is_contiguous(kChannelsLast);
  const Tensor result = dense ? out : new_tensor(out.sizes(), kFloat32, kCPU);
  winograd::weight_gradient(shape, images.impl()->typed<float>(), gradient.impl()->typed<float>(),
                            taps_of<float>(result));
  if (!dense) out.copy_(result);
}

void run(const KernelArgs& args) {
  const ConvShape s = conv_shape_of(args);
  if (run_if_empty(args, s)) return;
  switch (conv_kind(args)) {
    case ConvKind::forward: return run_correlation(args, correlation_of(s));
    case ConvKind::backward_input: return run_correlation(args, input_gradient_of(s));
    case ConvKind::backward_weight: return run_weight_gradient(args, correlation_of(s));
  }
}

}  // namespace

void register_winograd() {
  for (OpId op : {OpId::conv2d, OpId::conv2d_backward_input, OpId::conv2d_backward_weight}) {
    add(op, {"Winograd F(4x4,3x3)", refuse, run});
  }
}

}  // namespace facula::cpu
