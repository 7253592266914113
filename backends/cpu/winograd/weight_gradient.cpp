// The gradient of the weights.
//
// A slice is a part of the tiles with a block of channels and a block of outputs, small enough that
// the sums of products of all 36 positions stay in a core's caches while the tiles go by. The sums
// are transformed to weight gradients at once; those of several parts are added up afterwards.
#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/winograd/winograd.h"
#include "base/thread_pool.h"

namespace facula::cpu::winograd {
namespace {

constexpr std::int64_t kChannels = 64;
constexpr std::int64_t kOutputs = 128;
constexpr std::int64_t kTilesAtATime = 32;
static_assert(kChannels <= kMostChannels && kOutputs <= kMostChannels);
/// Tiles are cut into parts only to make this many slices, each of at least so many tiles.
constexpr std::int64_t kWantedSlices = 16;
constexpr std::int64_t kFewestTiles = 64;

struct Cut {
  std::int64_t channel_blocks, output_blocks, tiles_per_part, parts;

  explicit Cut(const Correlation& s)
      : channel_blocks(divide_up(s.channels, kChannels)),
        output_blocks(divide_up(s.outputs, kOutputs)) {
    const std::int64_t blocks = channel_blocks * output_blocks;
    const std::int64_t wanted =
        std::clamp<std::int64_t>(s.tiles() / kFewestTiles, 1, divide_up(kWantedSlices, blocks));
    tiles_per_part = divide_up(s.tiles(), wanted);
    parts = divide_up(s.tiles(), tiles_per_part);
  }
  std::int64_t slices() const { return channel_blocks * output_blocks * parts; }
};

/// sums[k][c] (+)= sum over the tiles of dy[tile][k] * x[tile][c], in every position.
void add_products(const Transformed& dy, std::int64_t outputs, const Transformed& x,
                  std::int64_t channels, std::int64_t tiles, const Transformed& sums,
                  bool accumulate) {
  winograd_kernels().products({.rows = outputs,
                               .columns = channels,
                               .depth = tiles,
                               .a = dy.data,
                               .a_position_stride = dy.position_stride,
                               .a_row_stride = 1,
                               .a_depth_stride = dy.tile_stride,
                               .b = x.data,
                               .b_position_stride = x.position_stride,
                               .b_panel_stride = winograd_kernels().panel,
                               .b_depth_stride = x.tile_stride,
                               .c = sums.data,
                               .c_position_stride = sums.position_stride,
                               .c_row_stride = sums.tile_stride,
                               .accumulate = accumulate});
}

/// Transforms the sums of a block to weight gradients, and puts these where they belong.
void finish(const Transformed& sums, std::int64_t outputs, std::int64_t channels,
            const Taps<float>& to) {
  WeightGradient gradient = {.data = sums.data,
                             .position_stride = sums.position_stride,
                             .row_stride = sums.tile_stride,
                             .rows = outputs,
                             .columns = channels,
                             .taps = to.data,
                             .tap_stride = to.tap_stride,
                             .tap_row_stride = to.output_stride};
  if (to.channel_stride == 1) return winograd_kernels().weight_gradient(gradient);
  const Scratch<float> buffer(outputs * kAllTaps * channels);
  gradient.taps = buffer.data();
  gradient.tap_stride = channels;
  gradient.tap_row_stride = kAllTaps * channels;
  winograd_kernels().weight_gradient(gradient);
  for (std::int64_t k = 0; k < outputs; ++k) {
    gemm_loops<float>().transpose(buffer.data() + k * kAllTaps * channels, channels, kAllTaps,
                                  channels, to.data + k * to.output_stride);
  }
}

}  // namespace

void weight_gradient(const Correlation& s, const float* images, const float* gradient,
                     const Taps<float>& taps) {
  const Kernels& kernels = winograd_kernels();
  const Cut cut(s);
  const std::int64_t numel = kAllTaps * s.channels * s.outputs;
  const Scratch<float> part_sums(cut.parts > 1 ? cut.parts * numel : 0);
  float* result = cut.parts > 1 ? part_sums.data() : taps.data;
  const Images<const float> inputs = s.inputs(images), outputs = s.results(gradient);
  const Buffer input_buffer(kTilesAtATime, std::min(kChannels, s.channels));
  const Buffer output_buffer(kTilesAtATime, std::min(kOutputs, s.outputs));
  const Buffer sum_buffer(std::min(kOutputs, s.outputs), std::min(kChannels, s.channels));
  base::parallel_for(cut.slices(), [&](std::int64_t slice) {
    const Scratch<float> memory(input_buffer.numel() + output_buffer.numel() + sum_buffer.numel());
    const Transformed x = input_buffer.at(memory.data());
    const Transformed dy = output_buffer.at(x.data + input_buffer.numel());
    const Transformed sums = sum_buffer.at(dy.data + output_buffer.numel());
    const std::int64_t part = slice / (cut.channel_blocks * cut.output_blocks);
    const std::int64_t c = slice / cut.output_blocks % cut.channel_blocks * kChannels;
    const std::int64_t k = slice % cut.output_blocks * kOutputs;
    const std::int64_t channels = std::min(kChannels, s.channels - c);
    const std::int64_t rows = std::min(kOutputs, s.outputs - k);
    const std::int64_t first = part * cut.tiles_per_part;
    const std::int64_t end = std::min(first + cut.tiles_per_part, s.tiles());
    for (std::int64_t tile = first; tile < end; tile += kTilesAtATime) {
      const std::int64_t tiles = std::min(kTilesAtATime, end - tile);
      kernels.input(inputs, {tile, tiles, c, channels}, x);
      kernels.gradient(outputs, {tile, tiles, k, rows}, dy);
      add_products(dy, rows, x, channels, tiles, sums, tile > first);
    }
    Taps<float> part_taps = taps;
    part_taps.data = result + part * numel;
    finish(sums, rows, channels, part_taps.from(c, k));
  });
  if (cut.parts == 1) return;
  sum_parts(result, cut.parts, numel);
  std::memcpy(taps.data, result, static_cast<std::size_t>(numel) * sizeof(float));
}

}  // namespace facula::cpu::winograd
