#include "backends/cpu/packed_taps.h"

#include <algorithm>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/kernels/pointwise.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"

namespace facula::cpu {
namespace {

/// Channels whose weights are packed at a time: fewer where that leaves threads idle.
constexpr std::int64_t kPackedChannels = 64, kFewPackedChannels = 16, kFewestSlices = 4;

}  // namespace

PackedTaps::PackedTaps(const Taps<const float>& taps, std::int64_t count, std::int64_t inputs,
                       std::int64_t outputs)
    : inputs_(inputs),
      tap_size_(inputs * pointwise_kernels().padded(outputs)),
      data_(count * tap_size_) {
  const auto columns = pointwise_kernels().panel_columns;
  for (std::int64_t k = 0; k < outputs; k += columns(outputs - k)) panels_.push_back(k);
  const bool few = std::ssize(panels_) * base::divide_up(inputs, kPackedChannels) < kFewestSlices;
  const std::int64_t channels = few ? kFewPackedChannels : kPackedChannels;
  const std::int64_t blocks = base::divide_up(inputs, channels);
  base::parallel_for(std::ssize(panels_) * blocks, [&](std::int64_t slice) {
    const std::int64_t k = panels_[static_cast<std::size_t>(slice / blocks)];
    const std::int64_t c = slice % blocks * channels;
    pack(taps.from(c, k), count, c, std::min(channels, inputs - c), k, outputs - k);
  });
}

/// Some channels of the panel that begins at an output, before which so many are left.
void PackedTaps::pack(const Taps<const float>& taps, std::int64_t count, std::int64_t channel,
                      std::int64_t channels, std::int64_t output, std::int64_t left) const {
  const std::int64_t columns = pointwise_kernels().panel_columns(left),
                     outputs = std::min(columns, left);
  float* to = data_.data() + inputs_ * output + channel * columns;
  for (std::int64_t i = 0; outputs < columns && i < count; ++i) {
    std::fill_n(to + i * tap_size_, channels * columns, 0.0f);
  }
  const auto& loops = gemm_loops<float>();
  // Taps one after the other are turned on the way. Of those side by side all would be written at
  // the same time, often powers of two apart, which compete for the same places of a cache.
  if (taps.channel_stride == 1 && taps.output_stride != 1) {
    for (std::int64_t i = 0; i < count; ++i) {
      loops.transpose(taps.data + i * taps.tap_stride, taps.output_stride, outputs, channels,
                      to + i * tap_size_, columns);
    }
    return;
  }
  const Scratch<float> buffer(count * channels * outputs);
  const auto dense = gather_outputs(taps, count, channels, outputs, buffer.data());
  for (std::int64_t i = 0; i < count; ++i) {
    loops.copy(dense.data + i * dense.tap_stride, dense.channel_stride, channels, outputs,
               to + i * tap_size_, columns);
  }
}

}  // namespace facula::cpu
