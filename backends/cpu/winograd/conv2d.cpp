// Convolutions with 3x3 weights and stride 1 or 2 by Winograd's algorithm: registration, and the
// conversion of the op's operands.
#include <algorithm>
#include <atomic>
#include <bit>
#include <utility>

#include <facula/backends.h>

#include "backends/cpu/caches.h"
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

/// Where the algorithm is faster than direct summation, as measured.
struct Limits {
  std::int64_t stride;
  /// With fewer channels the transforms cost more than the products they save.
  std::int64_t fewest_channels;
  /// Products as a fraction of direct summation's. A tile costs as much whatever part of it lies
  /// outside the image.
  double most_products;
  /// Converting contiguous images of more elements than this, together, to channels_last and back
  /// takes longer than what is saved with fewer channels.
  std::int64_t large_images, fewest_channels_to_convert;
  /// With fewer tiles the transform of the weights is not worth it.
  std::int64_t fewest_tiles;
};
/// With stride 2 the transforms are smaller beside the products, but less is saved, and oneDNN
/// converts images while they are in the caches.
constexpr Limits kLimits[] = {{1, 16, 0.5, 1 << 20, 16, 8}, {2, 32, 0.8, 0, 24, 16}};

/// Sums over more channels, which go by blocks, could exceed the errors stated in backends.h.
constexpr std::int64_t kMostSummed = 4096;

/// With fewer tiles gradients of weights have little but their own transform to compute.
constexpr std::int64_t kFewestTilesOfGradient = 16;

/// Tiles that go together: more read the weights less often, but then their buffers, the weights
/// and the lines of results that are asked for exceed a second-level cache of 1 MiB. Where weights
/// are read by one thread alone, a few more make five blocks of 128 tiles instead of six.
constexpr std::int64_t kFewTiles = 16, kManyTiles = 24, kMostTiles = 26;
/// The next block's inputs are asked for ahead, and this one's results with what they are made of.
static_assert(kMostTiles *
                  (winograd::ReadAhead::kInputPixels + 3 * winograd::ReadAhead::kResultPixels) <=
              winograd::ReadAhead::kMostPixels);
/// Outputs that go together. Up to kMostOutputs all do, so that tiles are transformed once, if
/// there are few enough channels for their sums to stay in the second-level cache.
constexpr std::int64_t kOutputs = 128, kMostOutputs = 256;
static_assert(kMostOutputs <= winograd::kMostChannels);
/// Transformed weights of more elements than this do not stay in the caches. With so many of the
/// weights per tile, their way to the memory and back takes longer than to transform tiles anew for
/// few outputs, whose weights stay in the caches of the thread that transforms them.
constexpr std::int64_t kLargeWeights = 4 << 20, kManyWeights = 1024;
constexpr std::int64_t kOwnOutputs = 64, kOwnOutputsOfLargeCaches = 128;
/// Where few blocks of tiles would leave threads idle, fewer outputs go together, down to this.
constexpr std::int64_t kFewestSlices = 4, kFewestOutputs = 32;

enum class Blocks { usual, other };

winograd::BlockSize block_size(const Correlation& s, Blocks blocks) {
  const bool large_caches = far_last_level();
  const std::int64_t tiles = (blocks == Blocks::usual) == large_caches ? kManyTiles : kFewTiles;
  if (blocks == Blocks::other) return {tiles, kOutputs};
  const bool all = s.outputs <= kMostOutputs && s.channels <= kMostOutputs;
  const std::int64_t weights = s.channels * s.outputs;
  if (winograd::kMatrices * weights > kLargeWeights && weights >= kManyWeights * s.tiles()) {
    return large_caches ? winograd::BlockSize{kMostTiles, kOwnOutputsOfLargeCaches, true}
                        : winograd::BlockSize{kFewTiles, kOwnOutputs, true};
  }
  const std::int64_t count = base::divide_up(s.tiles(), tiles);
  std::int64_t outputs = all ? kMostOutputs : kOutputs;
  while (outputs > kFewestOutputs && count * base::divide_up(s.outputs, outputs) < kFewestSlices) {
    outputs /= 2;
  }
  return {tiles, outputs};
}

bool conversion_too_dear(const KernelArgs& args, const ConvShape& s, const Limits& limits) {
  // With stride 2, the other ways leave a thread idle or the caches with these.
  constexpr std::int64_t kFewImages = 2, kLargeImage = 1 << 20;
  const std::int64_t image = s.c * s.h * s.w + s.oc * s.oh * s.ow;
  if (limits.stride == 2 && (s.n <= kFewImages || image > kLargeImage)) return false;
  return args.in(0).suggest_memory_format() != kChannelsLast && s.n * image > limits.large_images &&
         s.c * s.oc < limits.fewest_channels_to_convert * (s.c + s.oc);
}

Correlation correlation_of(const ConvShape& s) {
  return {s.n, s.h, s.w, s.c, s.oh, s.ow, s.oc, s.pad_h, s.pad_w, s.stride_h, false};
}

/// The gradient of the input, from that of the output.
Correlation input_gradient_of(const ConvShape& s) {
  return {s.n, s.oh, s.ow, s.oc, s.h, s.w, s.c, s.pad_h, s.pad_w, s.stride_h, true};
}

/// Products as a fraction of direct summation's.
double products_of(const Correlation& s) {
  std::int64_t products = 0;
  for (std::int64_t i = 0; i < s.parts(); ++i) {
    for (std::int64_t region = 0; region < Correlation::kRegions; ++region) {
      const auto& filter = s.part(i, region).filter;
      products +=
          s.tiles(region) * std::popcount(filter.used) * (filter.positions / filter.matrices);
    }
  }
  const std::int64_t direct = s.n * s.oh * s.ow * winograd::kAllTaps;
  return static_cast<double>(products * (s.transposed ? s.parts() : 1)) /
         static_cast<double>(direct);
}

Refusal refuse(const KernelArgs& args, const Limits& limits) {
  if (!backends::cpu::winograd()) return "switched off";
  if (args.in(0).dtype() != kFloat32) return "only float32";
  const ConvShape s = conv_shape_of(args);
  if (s.kh != winograd::kTaps || s.kw != winograd::kTaps) return "weights are not 3x3";
  if (s.stride_h != limits.stride || s.stride_w != limits.stride) return "another stride";
  if (s.dilation_h != 1 || s.dilation_w != 1) return "dilation is not 1";
  if (s.groups != 1) return "groups";
  if (s.pad_h >= winograd::kTaps || s.pad_w >= winograd::kTaps) return "padding beyond the weights";
  if (std::min(s.c, s.oc) < limits.fewest_channels) return "too few channels";
  const ConvKind kind = conv_kind(args);
  const bool of_weights = kind == ConvKind::backward_weight;
  const Correlation work =
      kind == ConvKind::backward_input ? input_gradient_of(s) : correlation_of(s);
  if (!of_weights && work.channels > kMostSummed) {
    return "so many channels that errors could exceed the stated bound";
  }
  if (work.tiles() < (of_weights ? kFewestTilesOfGradient : limits.fewest_tiles)) {
    return "too few pixels";
  }
  if (products_of(work) > limits.most_products) {
    return "small images: much of the tiles would lie outside";
  }
  if (conversion_too_dear(args, s, limits)) return "contiguous images with few channels";
  return nullptr;
}

Refusal refuse_stride_1(const KernelArgs& args) { return refuse(args, kLimits[0]); }
Refusal refuse_stride_2(const KernelArgs& args) { return refuse(args, kLimits[1]); }

/// Correlates in(0) with the weights in(1).
void run_correlation(const KernelArgs& args, const Correlation& shape, Blocks blocks) {
  const Tensor images = args.in(0).contiguous(kChannelsLast);
  const Tensor weight = with_taps(args.in(1));
  Taps<const float> taps = taps_of<const float>(weight);
  if (shape.transposed) std::swap(taps.channel_stride, taps.output_stride);
  const Tensor bias = !shape.transposed && args.has(2) ? args.in(2).contiguous() : Tensor();
  const bool convert = !args.out().is_contiguous(kChannelsLast);
  const Tensor result =
      convert ? new_tensor(args.out().sizes(), kFloat32, kCPU, kChannelsLast) : args.out();
  const ConvEpilogue after(args, kChannelsLast);
  using Kind = winograd::Epilogue::Kind;
  const winograd::Epilogue epilogue = {
      .kind = !after.empty()        ? Kind::affine
              : after.of_gradient() ? Kind::gradient
                                    : Kind::bias,
      .bias = bias.defined() ? bias.impl()->typed<float>() : nullptr,
      .scale = after.scale(),
      .shift = after.shift(),
      .residual = after.residual(),
      .rectified = after.rectified(),
      .relu = after.relu(),
      .cap = after.cap()};
  correlate(shape, images.impl()->typed<float>(), taps, epilogue, result.impl()->typed<float>(),
            block_size(shape, blocks));
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

template <Blocks kBlocks>
void run(const KernelArgs& args) {
  const ConvShape s = conv_shape_of(args);
  if (run_if_empty(args, s)) return;
  switch (conv_kind(args)) {
    case ConvKind::forward: return run_correlation(args, correlation_of(s), kBlocks);
    case ConvKind::backward_input: return run_correlation(args, input_gradient_of(s), kBlocks);
    case ConvKind::backward_weight: return run_weight_gradient(args, correlation_of(s));
  }
}

}  // namespace

void register_winograd() {
  enum Bits { kStride1 = 1, kStride2 };  // blocks change none
  for (OpId op : {OpId::conv2d, OpId::conv2d_fused, OpId::conv2d_backward_input,
                  OpId::conv2d_backward_input_fused, OpId::conv2d_backward_weight}) {
    add(op, {"Winograd F(4x4,3x3)", refuse_stride_1, run<Blocks::usual>, kStride1});
    add(op, {"Winograd F(4x4,2x2) at stride 2", refuse_stride_2, run<Blocks::usual>, kStride2});
    if (op == OpId::conv2d_backward_weight) continue;
    add(op, {"Winograd F(4x4,3x3) in other blocks", refuse_stride_1, run<Blocks::other>, kStride1});
    add(op, {"Winograd F(4x4,2x2) at stride 2 in other blocks", refuse_stride_2, run<Blocks::other>,
             kStride2});
  }
}

}  // namespace facula::cpu
