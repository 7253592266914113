// The gradient of the weights.
//
// A slice is a share of the tiles with a block of channels and a block of outputs, small enough
// that the sums of products of all positions stay in a core's caches while the tiles go by. The
// sums are transformed to weight gradients at once; those of several shares are added up
// afterwards. With stride 2, every part of the correlation has slices of its own: they give
// different taps.
#include <algorithm>
#include <cstring>

#include "backends/cpu/caches.h"
#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/winograd/winograd.h"
#include "base/thread_pool.h"

namespace facula::cpu::winograd {
namespace {

constexpr std::int64_t kChannels = 64;
constexpr std::int64_t kOutputs = 128;
/// Where what exceeds the second level comes from far away, all that a block works on fits there.
constexpr std::int64_t kOutputsBeforeFarCache = 64;
/// Where positions share weights, fewer tiles at a time make sums as long: their transforms then
/// stay in the caches.
constexpr std::int64_t kTilesAtATime = 32, kFewestAtATime = 4;
static_assert(kChannels <= kMostChannels && kOutputs <= kMostChannels);
static_assert(2 * kTilesAtATime * ReadAhead::kInputPixels <= ReadAhead::kMostPixels);
/// Images of so many elements together are still in the caches; asking for them would only take
/// time.
constexpr std::int64_t kCachedNumel = 4 << 20;
/// Tiles of each size are cut into shares to make this many slices, each of at least so many tiles,
/// and so that sums over more tiles do not exceed the errors stated in backends.h.
constexpr std::int64_t kWantedSlices = 16;
constexpr std::int64_t kFewestTiles = 64, kMostTiles = 1024;

struct Cut {
  std::int64_t parts, channel_blocks, outputs, output_blocks, shares;

  explicit Cut(const Correlation& s)
      : parts(s.parts()),
        channel_blocks(divide_up(s.channels, kChannels)),
        outputs(std::min(far_last_level() ? kOutputsBeforeFarCache : kOutputs, s.outputs)),
        output_blocks(divide_up(s.outputs, outputs)) {
    // Shares decide about the order of sums, and so do not depend on the machine.
    const std::int64_t slices = parts * channel_blocks * divide_up(s.outputs, kOutputs);
    const std::int64_t most =
        std::max(divide_up(kWantedSlices, slices), divide_up(s.tiles(), kMostTiles));
    const std::int64_t wanted = std::clamp<std::int64_t>(s.tiles() / kFewestTiles, 1, most);
    shares = divide_up(s.tiles(), divide_up(s.tiles(), wanted));
  }
  std::int64_t slices_of_share() const { return parts * channel_blocks * output_blocks; }
  std::int64_t slices() const { return slices_of_share() * shares; }
};

/// sums[k][c] (+)= sum over the tiles of dy[tile][k] * x[tile][c], in every position; those that
/// share weights are added up as if they were more tiles.
void add_products(const Filter& filter, const Transformed& dy, std::int64_t outputs,
                  const Transformed& x, std::int64_t channels, std::int64_t tiles,
                  const Transformed& sums, bool accumulate, const ReadAhead& ahead) {
  const std::int64_t sharing = filter.positions / filter.matrices;
  Products products = {.matrices = filter.used,
                       .sharing = 1,
                       .rows = outputs,
                       .columns = channels,
                       .depth = sharing * tiles,
                       .a = dy.data,
                       .a_position_stride = sharing * dy.position_stride,
                       .a_row_stride = 1,
                       .a_depth_stride = dy.tile_stride,
                       .b = x.data,
                       .b_matrix_stride = sharing * x.position_stride,
                       .b_panel_stride = winograd_kernels().panel,
                       .b_depth_stride = x.tile_stride,
                       .c = sums.data,
                       .c_position_stride = sums.position_stride,
                       .c_row_stride = sums.tile_stride,
                       .accumulate = accumulate};
  ahead.during(products);
  winograd_kernels().products(products);
}

/// Transforms the sums of a block to weight gradients, and puts these where they belong.
void finish(const PartOfCorrelation& part, const Transformed& sums, std::int64_t outputs,
            std::int64_t channels, const Taps<float>& to) {
  const PartOfLine &rows = part.rows, &columns = part.columns;
  const std::int64_t first = rows.first_tap * kTaps + columns.first_tap;
  WeightGradient gradient = {.data = sums.data,
                             .matrix_stride = sums.position_stride,
                             .row_stride = sums.tile_stride,
                             .rows = outputs,
                             .columns = channels,
                             .taps = to.data + first * to.tap_stride,
                             .tap_line_stride = rows.tap_step * kTaps * to.tap_stride,
                             .tap_stride = columns.tap_step * to.tap_stride,
                             .tap_row_stride = to.output_stride};
  if (to.channel_stride == 1) return part.filter.weight_gradient(gradient);
  const std::int64_t taps_h = part.filter.taps_h, taps_w = part.filter.taps_w;
  const Scratch<float> buffer(outputs * taps_h * taps_w * channels);
  gradient.taps = buffer.data();
  gradient.tap_line_stride = taps_w * channels;
  gradient.tap_stride = channels;
  gradient.tap_row_stride = taps_h * taps_w * channels;
  part.filter.weight_gradient(gradient);
  const float* from = buffer.data();
  for (std::int64_t k = 0; k < outputs; ++k) {
    float* taps = to.data + k * to.output_stride + first * to.tap_stride;
    if (taps_h * taps_w == kAllTaps) {
      gemm_loops<float>().transpose(from, channels, kAllTaps, channels, taps, kAllTaps);
      from += kAllTaps * channels;
      continue;
    }
    for (std::int64_t i = 0; i < taps_h; ++i) {
      for (std::int64_t j = 0; j < taps_w; ++j, from += channels) {
        float* tap = taps + i * rows.tap_step * kTaps + j * columns.tap_step;
        for (std::int64_t c = 0; c < channels; ++c) tap[c * kAllTaps] = from[c];
      }
    }
  }
}

/// A part of a correlation, a share of its tiles, and some of its channels and outputs.
struct Slice {
  std::int64_t part, share;
  std::int64_t first_channel, channels;
  std::int64_t first_output, outputs;

  Slice(const Correlation& s, const Cut& cut, std::int64_t slice)
      : part(slice / (cut.channel_blocks * cut.output_blocks) % cut.parts),
        share(slice / cut.slices_of_share()),
        first_channel(slice / cut.output_blocks % cut.channel_blocks * kChannels),
        channels(std::min(kChannels, s.channels - first_channel)),
        first_output(slice % cut.output_blocks * cut.outputs),
        outputs(std::min(cut.outputs, s.outputs - first_output)) {}
};

/// Positions that share weights follow each other as if they were more tiles.
Transformed positions_of(const Filter& filter, const Buffer& buffer, float* data,
                         std::int64_t tiles) {
  Transformed transformed = buffer.at(data);
  if (filter.positions > filter.matrices) {
    transformed.position_stride = tiles * transformed.tile_stride;
  }
  return transformed;
}

}  // namespace

void weight_gradient(const Correlation& s, const float* images, const float* gradient,
                     const Taps<float>& taps) {
  const Cut cut(s);
  const std::int64_t numel = kAllTaps * s.channels * s.outputs;
  const bool large = s.n * (s.h * s.w * s.channels + s.oh * s.ow * s.outputs) > kCachedNumel;
  const Scratch<float> sums_of_shares(cut.shares > 1 ? cut.shares * numel : 0);
  float* result = cut.shares > 1 ? sums_of_shares.data() : taps.data;
  const std::int64_t channels = std::min(kChannels, s.channels);
  const Buffer input_buffer(s.positions(), kTilesAtATime, channels);
  const Buffer output_buffer(s.positions(), kTilesAtATime, cut.outputs);
  const Buffer sum_buffer(s.positions(), cut.outputs, channels);
  base::parallel_for(cut.slices(), [&](std::int64_t number) {
    const Scratch<float> memory(input_buffer.numel() + output_buffer.numel() + sum_buffer.numel());
    float* dy_memory = memory.data() + input_buffer.numel();
    const Transformed sums = sum_buffer.at(dy_memory + output_buffer.numel());
    const Slice slice(s, cut, number);
    for (std::int64_t region = 0; region < Correlation::kRegions; ++region) {
      const PartOfCorrelation part = s.part(slice.part, region);
      const Filter& filter = part.filter;
      const auto inputs = s.inputs(part, images);
      const auto results = s.results(part, gradient);
      const std::int64_t first_tile = slice.share * s.tiles(region) / cut.shares;
      const std::int64_t end_tile = (slice.share + 1) * s.tiles(region) / cut.shares;
      const std::int64_t step =
          std::max(kFewestAtATime, kTilesAtATime * filter.matrices / filter.positions);
      for (std::int64_t tile = first_tile; tile < end_tile; tile += step) {
        const std::int64_t tiles = std::min(step, end_tile - tile);
        const Transformed x = positions_of(filter, input_buffer, memory.data(), tiles);
        const Transformed dy = positions_of(filter, output_buffer, dy_memory, tiles);
        filter.input(inputs, {tile, tiles, slice.first_channel, slice.channels}, x);
        filter.gradient(results, {tile, tiles, slice.first_output, slice.outputs}, dy);
        const std::int64_t next = tile + tiles, more = std::min(step, end_tile - next);
        ReadAhead ahead;
        if (large) {
          ahead.add(inputs, {next, more, slice.first_channel, slice.channels}, part);
          ahead.add(results, {next, more, slice.first_output, slice.outputs});
        }
        // The first region has tiles in every share, and they have all positions.
        add_products(filter, dy, slice.outputs, x, slice.channels, tiles, sums,
                     tile > first_tile || region > 0, ahead);
      }
    }
    Taps<float> to = taps;
    to.data = result + slice.share * numel;
    finish(s.part(slice.part), sums, slice.outputs, slice.channels,
           to.from(slice.first_channel, slice.first_output));
  });
  if (cut.shares == 1) return;
  sum_parts(result, cut.shares, numel);
  std::memcpy(taps.data, result, static_cast<std::size_t>(numel) * sizeof(float));
}

}  // namespace facula::cpu::winograd
