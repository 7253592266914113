// The gradient of the weights.
//
// A slice is a share of the tiles with a block of channels and a block of outputs, small enough
// that the sums of products of all positions stay in a core's caches while the tiles go by. The
// sums are transformed to weight gradients at once; those of several shares are added up
// afterwards. With stride 2, every part of the correlation has slices of its own: they give
// different taps.
//
// Slices transform the tiles themselves, or, where many have the same ones and the caches are such
// that reading them takes less time, find them transformed.
#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "backends/cpu/caches.h"
#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/winograd/winograd.h"
#include "base/thread_pool.h"

namespace facula::cpu::winograd {
namespace {

constexpr std::int64_t kChannels = 64;
constexpr std::int64_t kOutputs = 128;
/// With a last-level cache far away, slices that share transformed tiles leave room in the second
/// level for the tiles that come next. With fewer of them it takes as long to transform anew.
constexpr std::int64_t kOutputsOfSharers = 64, kFewestSharers = 4;
/// Elements of transformed tiles that are shared at a time: a share has at most so many, and
/// several that have fewer go together.
constexpr std::int64_t kMostShared = 16 << 20, kSharedTogether = 10 << 20;
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
  bool shared_tiles;      ///< slices find their tiles transformed
  std::int64_t together;  ///< so many shares at a time, then

  explicit Cut(const Correlation& s)
      : parts(s.parts()), channel_blocks(divide_up(s.channels, kChannels)) {
    // Shares decide about the order of sums, and so do not depend on the machine.
    const std::int64_t slices = parts * channel_blocks * divide_up(s.outputs, kOutputs);
    const std::int64_t most =
        std::max(divide_up(kWantedSlices, slices), divide_up(s.tiles(), kMostTiles));
    const std::int64_t wanted = std::clamp<std::int64_t>(s.tiles() / kFewestTiles, 1, most);
    const std::int64_t tiles_of_share = divide_up(s.tiles(), wanted);
    shares = divide_up(s.tiles(), tiles_of_share);
    share_tiles(s, tiles_of_share);
    outputs = std::min(shared_tiles ? kOutputsOfSharers : kOutputs, s.outputs);
    output_blocks = divide_up(s.outputs, outputs);
  }
  std::int64_t slices_of_share() const { return parts * channel_blocks * output_blocks; }

 private:
  void share_tiles(const Correlation& s, std::int64_t tiles_of_share) {
    const std::int64_t sharers = channel_blocks * divide_up(s.outputs, kOutputsOfSharers);
    std::int64_t positions = 0;
    for (std::int64_t part = 0; part < parts; ++part) positions += s.part(part).filter.positions;
    const std::int64_t numel = positions * tiles_of_share * (s.channels + s.outputs);
    shared_tiles = far_last_level() && sharers >= kFewestSharers && numel <= kMostShared;
    together = std::clamp<std::int64_t>(kSharedTogether / numel, 1, shares);
  }
};

/// Tiles of a region that are multiplied together, for a part of the correlation, and the places of
/// their transforms: for a block of channels or outputs, and behind those of the blocks before it.
struct Block {
  std::int64_t part, region, first_tile, tiles;
  Buffer inputs, gradients;
  std::int64_t inputs_begin, gradients_begin;
};

/// Those of every share and part in turn.
class Blocks {
 public:
  Blocks(const Correlation& s, const Cut& cut)
      : parts_(s.parts()), firsts_(cut.shares * parts_ + 1), list_(count(s, cut)) {
    const std::int64_t channels = std::min(kChannels, s.channels);
    std::int64_t inputs = 0, gradients = 0, number = 0;
    for_each_range(s, cut, [&](const Range& range) {
      if (range.region == 0) firsts_[range.turn] = number;
      const std::int64_t positions = s.part(range.part, range.region).filter.positions;
      for (std::int64_t tile = range.begin; tile < range.end; tile += range.most) {
        const Block& block = *std::construct_at(
            list_.data() + number++,
            Block{range.part, range.region, tile, std::min(range.most, range.end - tile),
                  Buffer(positions, range.most, channels),
                  Buffer(positions, range.most, cut.outputs), inputs, gradients});
        inputs += block.inputs.numel();
        gradients += block.gradients.numel();
      }
    });
    firsts_[cut.shares * parts_] = number;
  }
  std::span<const Block> of(std::int64_t share, std::int64_t part) const {
    return between(share * parts_ + part, share * parts_ + part + 1);
  }
  std::span<const Block> of_shares(std::int64_t first, std::int64_t end) const {
    return between(first * parts_, end * parts_);
  }

 private:
  /// The tiles of a region that a share has, `most` of which are a block, for a part whose turn it
  /// is.
  struct Range {
    std::int64_t turn, part, region, begin, end, most;
  };
  template <class Visit>
  static void for_each_range(const Correlation& s, const Cut& cut, Visit visit) {
    for (std::int64_t turn = 0; turn < cut.shares * s.parts(); ++turn) {
      const std::int64_t share = turn / s.parts(), part = turn % s.parts();
      for (std::int64_t region = 0; region < Correlation::kRegions; ++region) {
        const Filter& filter = s.part(part, region).filter;
        visit(Range{turn, part, region, share * s.tiles(region) / cut.shares,
                    (share + 1) * s.tiles(region) / cut.shares,
                    std::max(kFewestAtATime, kTilesAtATime * filter.matrices / filter.positions)});
      }
    }
  }
  static std::int64_t count(const Correlation& s, const Cut& cut) {
    std::int64_t count = 0;
    for_each_range(s, cut, [&](const Range& range) {
      count += divide_up(range.end - range.begin, range.most);
    });
    return count;
  }
  std::span<const Block> between(std::int64_t first, std::int64_t end) const {
    return {list_.data() + firsts_[first], list_.data() + firsts_[end]};
  }

  std::int64_t parts_;
  // Not vectors: the C library gives memory of this size back, and pages would fault in each step.
  Scratch<std::int64_t> firsts_;
  Scratch<Block> list_;
};

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

/// What all slices have in common.
struct Call {
  const Correlation& shape;
  const Cut& cut;
  const float *images, *gradient;

  PartOfCorrelation part(const Block& block) const { return shape.part(block.part, block.region); }
  Transformed inputs(const Block& block, float* data) const {
    return positions_of(part(block).filter, block.inputs, data, block.tiles);
  }
  Transformed gradients(const Block& block, float* data) const {
    return positions_of(part(block).filter, block.gradients, data, block.tiles);
  }
  void transform_inputs(const Block& block, std::int64_t first_channel, float* to) const {
    const PartOfCorrelation own = part(block);
    own.filter.input(shape.inputs(own, images),
                     {block.first_tile, block.tiles, first_channel,
                      std::min(kChannels, shape.channels - first_channel)},
                     inputs(block, to));
  }
  void transform_gradients(const Block& block, std::int64_t first_output, float* to) const {
    const PartOfCorrelation own = part(block);
    own.filter.gradient(shape.results(own, gradient),
                        {block.first_tile, block.tiles, first_output,
                         std::min(cut.outputs, shape.outputs - first_output)},
                        gradients(block, to));
  }
};

/// Transformed tiles of the images and of the gradient.
struct Tiles {
  Transformed x, dy;
};

/// sums[k][c] (+)= sum over the tiles of dy[tile][k] * x[tile][c], in every position; those that
/// share weights are added up as if they were more tiles.
void add_products(const Call& call, const Block& block, const Slice& slice, const Tiles& tiles,
                  const Transformed& sums, bool accumulate, const ReadAhead& ahead) {
  const Filter& filter = call.part(block).filter;
  const auto& [x, dy] = tiles;
  const std::int64_t sharing = filter.positions / filter.matrices;
  Products products = {.matrices = filter.used,
                       .sharing = 1,
                       .rows = slice.outputs,
                       .columns = slice.channels,
                       .depth = sharing * block.tiles,
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
                       .accumulate = accumulate,
                       .far = call.cut.shared_tiles,
                       .wide = far_last_level()};
  ahead.during(products);
  winograd_kernels().products(products);
}

/// Adds up the products of a slice and puts the gradients that they give into those of its share.
/// transformed(i, ahead) has the tiles of block number i and may set what to ask for meanwhile.
template <class GetTiles>
void run_slice(const Call& call, const Slice& slice, std::span<const Block> blocks,
               const Taps<float>& result, GetTiles transformed) {
  const Correlation& s = call.shape;
  const Buffer place(s.positions(), call.cut.outputs, std::min(kChannels, s.channels));
  const Scratch<float> memory(place.numel());
  const Transformed sums = place.at(memory.data());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    ReadAhead ahead;
    const Tiles tiles = transformed(i, ahead);
    // The first region has tiles in every share, and they have all positions.
    add_products(call, blocks[i], slice, tiles, sums, i > 0, ahead);
  }
  Taps<float> to = result;
  to.data += slice.share * kAllTaps * s.channels * s.outputs;
  finish(s.part(slice.part), sums, slice.outputs, slice.channels,
         to.from(slice.first_channel, slice.first_output));
}

/// Slices that transform their tiles. `result` has the gradients of share after share.
void run_alone(const Call& call, const Blocks& blocks, const Taps<float>& result) {
  const Correlation& s = call.shape;
  const Cut& cut = call.cut;
  const bool large = s.n * (s.h * s.w * s.channels + s.oh * s.ow * s.outputs) > kCachedNumel;
  base::parallel_for(cut.shares * cut.slices_of_share(), [&](std::int64_t number) {
    const Slice slice(s, cut, number);
    const std::span<const Block> own = blocks.of(slice.share, slice.part);
    std::int64_t inputs = 0, gradients = 0;
    for (const Block& block : own) {
      inputs = std::max(inputs, block.inputs.numel());
      gradients = std::max(gradients, block.gradients.numel());
    }
    const Scratch<float> memory(inputs + gradients);
    float* const gradient_memory = memory.data() + inputs;
    run_slice(call, slice, own, result, [&](std::size_t i, ReadAhead& ahead) {
      call.transform_inputs(own[i], slice.first_channel, memory.data());
      call.transform_gradients(own[i], slice.first_output, gradient_memory);
      if (large && i + 1 < own.size()) {
        const Block& next = own[i + 1];
        const PartOfCorrelation part = call.part(next);
        ahead.add(s.inputs(part, call.images),
                  {next.first_tile, next.tiles, slice.first_channel, slice.channels}, part);
        ahead.add(s.results(part, call.gradient),
                  {next.first_tile, next.tiles, slice.first_output, slice.outputs});
      }
      return Tiles{call.inputs(own[i], memory.data()), call.gradients(own[i], gradient_memory)};
    });
  });
}

/// Slices for which all tiles of some shares have been transformed, so that the blocks of each
/// follow each other in memory.
void run_sharers(const Call& call, const Blocks& blocks, const Taps<float>& result) {
  const Correlation& s = call.shape;
  const Cut& cut = call.cut;
  for (std::int64_t share = 0; share < cut.shares; share += cut.together) {
    const std::int64_t end = std::min(share + cut.together, cut.shares);
    const std::span<const Block> tiles = blocks.of_shares(share, end);
    const Block &first = tiles.front(), &last = tiles.back();
    const std::int64_t inputs = last.inputs_begin + last.inputs.numel() - first.inputs_begin;
    const std::int64_t gradients =
        last.gradients_begin + last.gradients.numel() - first.gradients_begin;
    const Scratch<float> memory(inputs * cut.channel_blocks + gradients * cut.output_blocks);
    float* const gradient_memory = memory.data() + inputs * cut.channel_blocks;
    const auto inputs_of = [&](const Block& block, std::int64_t channel) {
      return memory.data() + channel / kChannels * inputs + block.inputs_begin - first.inputs_begin;
    };
    const auto gradients_of = [&](const Block& block, std::int64_t output) {
      return gradient_memory + output / cut.outputs * gradients + block.gradients_begin -
             first.gradients_begin;
    };
    base::parallel_for(static_cast<std::int64_t>(tiles.size()), [&](std::int64_t i) {
      const Block& block = tiles[static_cast<std::size_t>(i)];
      for (std::int64_t c = 0; c < s.channels; c += kChannels) {
        call.transform_inputs(block, c, inputs_of(block, c));
      }
      for (std::int64_t k = 0; k < s.outputs; k += cut.outputs) {
        call.transform_gradients(block, k, gradients_of(block, k));
      }
    });
    base::parallel_for((end - share) * cut.slices_of_share(), [&](std::int64_t number) {
      const Slice slice(s, cut, share * cut.slices_of_share() + number);
      const std::span<const Block> own = blocks.of(slice.share, slice.part);
      run_slice(call, slice, own, result, [&](std::size_t i, ReadAhead&) {
        return Tiles{call.inputs(own[i], inputs_of(own[i], slice.first_channel)),
                     call.gradients(own[i], gradients_of(own[i], slice.first_output))};
      });
    });
  }
}

}  // namespace

void weight_gradient(const Correlation& s, const float* images, const float* gradient,
                     const Taps<float>& taps) {
  const Cut cut(s);
  const Blocks blocks(s, cut);
  const Call call{s, cut, images, gradient};
  const std::int64_t numel = kAllTaps * s.channels * s.outputs;
  const Scratch<float> sums_of_shares(cut.shares > 1 ? cut.shares * numel : 0);
  Taps<float> result = taps;
  if (cut.shares > 1) result.data = sums_of_shares.data();
  cut.shared_tiles ? run_sharers(call, blocks, result) : run_alone(call, blocks, result);
  if (cut.shares == 1) return;
  sum_parts(result.data, cut.shares, numel);
  std::memcpy(taps.data, result.data, static_cast<std::size_t>(numel) * sizeof(float));
}

}  // namespace facula::cpu::winograd
