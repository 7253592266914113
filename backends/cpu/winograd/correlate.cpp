// Forward convolution and the gradient of its input.
//
// A slice goes through blocks of tiles with a block of outputs. It transforms the tiles, some
// channels at a time, multiplies them by the transformed weights, adding up in a buffer, and
// transforms that back. Both buffers stay in the second-level cache; weights stream through.
#include <algorithm>

#include <facula/parallel.h>

#include "backends/cpu/caches.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/winograd/winograd.h"
#include "base/thread_pool.h"

namespace facula::cpu::winograd {
namespace {

/// Arrays of more elements than this do not stay in the caches anyway; their stores bypass them.
constexpr std::int64_t kStreamNumel = 4 << 20;

/// Channels that a slice works on at a time.
constexpr std::int64_t kChannels = 128;
static_assert(kChannels <= kMostChannels);

/// The transformed weights of some outputs, block after block as the slices read them: within a
/// block of channels and outputs by matrix, panel of outputs, channel.
class TransformedWeights {
 public:
  /// Of `count` outputs from `first` on.
  TransformedWeights(const Correlation& s, const Taps<const float>& taps, std::int64_t first,
                     std::int64_t count, std::int64_t output_block)
      : first_output_(first),
        panel_(winograd_kernels().panel),
        channels_(std::min(kChannels, s.channels)),
        outputs_(std::min(output_block, count)),
        channel_blocks_(divide_up(s.channels, channels_)),
        matrix_stride_(odd_lines(channels_ * round_up(outputs_, panel_))),
        numel_(divide_up(count, outputs_) * channel_blocks_ * kMatrices * matrix_stride_),
        data_(numel_) {
    const std::int64_t panels = divide_up(outputs_, panel_);
    const std::int64_t blocks = divide_up(count, outputs_) * channel_blocks_;
    base::parallel_for(blocks * panels, [&](std::int64_t slice) {
      const std::int64_t panel = slice % panels * panel_;
      const std::int64_t c = slice / panels % channel_blocks_ * channels_;
      const std::int64_t k = slice / panels / channel_blocks_ * outputs_;
      const std::int64_t channels = std::min(channels_, s.channels - c);
      const std::int64_t outputs = std::min({panel_, outputs_ - panel, count - k - panel});
      if (outputs <= 0) return;
      const Scratch<float> buffer(kAllTaps * channels * outputs);
      const auto dense = gather_outputs(taps.from(c, first + k + panel), kAllTaps, channels,
                                        outputs, buffer.data());
      for (std::int64_t i = 0; i < s.parts(); ++i) {
        transform(s.part(i), dense, channels, outputs, block(c, k) + panel * channels_);
      }
    });
  }

  /// Products of transformed tiles (some channels of them) with the weights of some outputs.
  Products products(const PartOfCorrelation& part, const Transformed& tiles, std::int64_t count,
                    std::int64_t first_channel, std::int64_t channels, std::int64_t first_output,
                    std::int64_t outputs, const Transformed& sums) const {
    return {.matrices = part.filter.used,
            .sharing = part.filter.positions / part.filter.matrices,
            .rows = count,
            .columns = outputs,
            .depth = channels,
            .a = tiles.data,
            .a_position_stride = tiles.position_stride,
            .a_row_stride = tiles.tile_stride,
            .a_depth_stride = 1,
            .b = block(first_channel, first_output - first_output_) +
                 part.first_matrix * matrix_stride_,
            .b_matrix_stride = matrix_stride_,
            .b_panel_stride = channels_ * panel_,
            .b_depth_stride = panel_,
            .c = sums.data,
            .c_position_stride = sums.position_stride,
            .c_row_stride = sums.tile_stride,
            .accumulate = first_channel > 0,
            .far = far_last_level()};
  }

 private:
  /// `output` counts from the first.
  float* block(std::int64_t channel, std::int64_t output) const {
    return data_.data() +
           (output / outputs_ * channel_blocks_ + channel / channels_) * kMatrices * matrix_stride_;
  }

  /// A panel of outputs.
  void transform(const PartOfCorrelation& part, const Taps<const float>& taps,
                 std::int64_t channels, std::int64_t outputs, float* to) const {
    const std::int64_t line = kTaps * taps.tap_stride;
    part.filter.weights(
        {.taps = taps.data + part.rows.first_tap * line + part.columns.first_tap * taps.tap_stride,
         .tap_line_stride = part.rows.tap_step * line,
         .tap_stride = part.columns.tap_step * taps.tap_stride,
         .row_stride = taps.channel_stride,
         .channels = channels,
         .outputs = outputs,
         .data = to + part.first_matrix * matrix_stride_,
         .matrix_stride = matrix_stride_},
        numel_ > kStreamNumel);
  }

  std::int64_t first_output_;
  std::int64_t panel_, channels_, outputs_, channel_blocks_, matrix_stride_, numel_;
  Scratch<float> data_;
};

/// What part number `part` does of the epilogue: of several that add up, the first adds the bias
/// and the last does the rest. Its pixels begin `offset` elements behind those of all images.
Epilogue epilogue_of(const Correlation& s, std::int64_t part, const Epilogue& all,
                     std::int64_t offset) {
  Epilogue own = all;
  if (s.transposed) {
    if (own.residual) own.residual += offset;
    if (own.rectified) own.rectified += offset;
    return own;
  }
  if (part + 1 < s.parts()) own = {};
  own.bias = part == 0 ? all.bias : nullptr;
  return own;
}

/// Tiles of a region that are transformed and multiplied together.
struct Block {
  std::int64_t region, first_tile, tiles;
};

/// All tiles, at most `most` in a block; blocks of a region have as many but for one.
struct Blocks {
  const Correlation& s;
  std::int64_t most;

  std::int64_t of_region(std::int64_t region) const { return divide_up(s.tiles(region), most); }
  std::int64_t count() const {
    std::int64_t count = 0;
    for (std::int64_t region = 0; region < Correlation::kRegions; ++region) {
      count += of_region(region);
    }
    return count;
  }
  Block operator[](std::int64_t i) const {
    std::int64_t region = 0;
    for (; i >= of_region(region); ++region) i -= of_region(region);
    const std::int64_t tiles = s.tiles(region), count = of_region(region);
    const std::int64_t first = i * tiles / count;
    return {region, first, (i + 1) * tiles / count - first};
  }
};

/// What a slice, or the next one, reads after the channels from `channel` of a block for a part:
/// other channels of these tiles, another part, the next block.
ReadAhead reads_after(const Correlation& s, const float* images, const Block& block,
                      const Block& next, std::int64_t part, std::int64_t channel) {
  const Block* tiles = &block;
  channel += kChannels;
  if (channel >= s.channels) {
    channel = 0;
    if (++part == s.parts()) {
      part = 0;
      tiles = &next;
    }
  }
  const PartOfCorrelation reads = s.part(part, tiles->region);
  ReadAhead ahead;
  ahead.add(s.inputs(reads, images),
            {tiles->first_tile, tiles->tiles, channel, std::min(kChannels, s.channels - channel)},
            reads);
  return ahead;
}

/// What all slices have in common.
struct Call {
  const Correlation& shape;
  const float* images;
  const Epilogue& epilogue;
  float* result;
  bool stream;
  Buffer inside, outside;
};

Images<const float> laid_out_like(const Images<float>& images, const float* data) {
  return {data,
          images.h,
          images.w,
          images.image_stride,
          images.line_stride,
          images.pixel_stride,
          images.tile_rows,
          images.tile_columns,
          images.pad_h,
          images.pad_w};
}

/// A block of tiles with some outputs. `next` comes after it.
void run_block(const Call& call, const TransformedWeights& weights, const Block& block,
               const Block& next, std::int64_t output, std::int64_t outputs) {
  const Correlation& s = call.shape;
  const Scratch<float> memory(call.inside.numel() + call.outside.numel());
  const Transformed tiles = call.inside.at(memory.data());
  const Transformed sums = call.outside.at(memory.data() + call.inside.numel());
  const Part results{block.first_tile, block.tiles, output, outputs};
  for (std::int64_t i = 0; i < s.parts(); ++i) {
    const PartOfCorrelation part = s.part(i, block.region);
    const Images<float> images = s.results(part, call.result);
    const Epilogue epilogue = epilogue_of(s, i, call.epilogue, images.data - call.result);
    // The parts are terms of the same pixels, or transposed give different ones.
    const bool add = i > 0 && !s.transposed;
    for (std::int64_t c = 0; c < s.channels; c += kChannels) {
      const std::int64_t channels = std::min(kChannels, s.channels - c);
      part.filter.input(s.inputs(part, call.images), {block.first_tile, block.tiles, c, channels},
                        tiles);
      Products products =
          weights.products(part, tiles, block.tiles, c, channels, output, outputs, sums);
      ReadAhead ahead = reads_after(s, call.images, block, next, i, c);
      if (c + channels == s.channels) {
        if (!call.stream && !add) ahead.add(laid_out_like(images, images.data), results);
        for (const float* beside : {epilogue.residual, epilogue.rectified}) {
          if (beside) ahead.add(laid_out_like(images, beside), results);
        }
      }
      ahead.during(products);
      winograd_kernels().products(products);
    }
    const StoreMode mode = add           ? StoreMode::add
                           : call.stream ? StoreMode::stream
                                         : StoreMode::usual;
    part.filter.output(sums, epilogue, results, images, mode);
  }
}

}  // namespace

void correlate(const Correlation& s, const float* images, const Taps<const float>& taps,
               const Epilogue& epilogue, float* result, const BlockSize& size) {
  const std::int64_t numel = s.n * s.oh * s.ow * s.outputs;
  // Pixels that several parts add to had better stay in the caches.
  const bool stream = numel > kStreamNumel && s.outputs % winograd_kernels().vector == 0 &&
                      reinterpret_cast<std::uintptr_t>(result) % 64 == 0 &&
                      (s.stride == 1 || s.transposed);
  const Call call{s,
                  images,
                  epilogue,
                  result,
                  stream,
                  Buffer(s.positions(), size.tiles, std::min(kChannels, s.channels)),
                  Buffer(s.positions(), size.tiles, std::min(size.outputs, s.outputs))};
  const Blocks blocks{s, size.tiles};
  const std::int64_t count = blocks.count(), output_blocks = divide_up(s.outputs, size.outputs);
  const auto run = [&](const TransformedWeights& weights, std::int64_t output_block,
                       std::int64_t first, std::int64_t end) {
    const std::int64_t output = output_block * size.outputs;
    for (std::int64_t i = first; i < end; ++i) {
      run_block(call, weights, blocks[i], blocks[(i + 1) % count], output,
                std::min(size.outputs, s.outputs - output));
    }
  };
  if (!size.own_weights) {
    const TransformedWeights weights(s, taps, 0, s.outputs, size.outputs);
    // Slices that run at the same time use the same weights.
    return base::parallel_for(count * output_blocks, [&](std::int64_t slice) {
      run(weights, slice / count, slice % count, slice % count + 1);
    });
  }
  // Where there are more threads than blocks of outputs, some transform the same weights.
  const std::int64_t groups = std::clamp<std::int64_t>(get_num_threads() / output_blocks, 1, count);
  base::parallel_for(output_blocks * groups, [&](std::int64_t slice) {
    const std::int64_t block = slice / groups, group = slice % groups;
    const std::int64_t output = block * size.outputs;
    const TransformedWeights weights(s, taps, output, std::min(size.outputs, s.outputs - output),
                                     size.outputs);
    run(weights, block, group * count / groups, (group + 1) * count / groups);
  });
}

}  // namespace facula::cpu::winograd
