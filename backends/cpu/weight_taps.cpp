#include "backends/cpu/weight_taps.h"

#include "backends/cpu/kernels/gemm.h"

namespace facula::cpu {

Taps<const float> gather_outputs(const Taps<const float>& taps, std::int64_t count,
                                 std::int64_t channels, std::int64_t outputs, float* buffer) {
  const auto transpose = gemm_loops<float>().transpose;
  if (taps.output_stride == 1) return taps;
  if (taps.tap_stride == 1) {
    const std::int64_t together = taps.channel_stride == count ? channels : 1;
    for (std::int64_t c = 0; c < channels; c += together) {
      // The weights of the next channel, if they lie in another place, which nobody foresees.
      const float* next = taps.data + (c + 1) * taps.channel_stride;
      for (std::int64_t i = 0; together == 1 && i < outputs * count; i += 16) {
        __builtin_prefetch(next + i);
      }
      transpose(taps.data + c * taps.channel_stride, taps.output_stride, outputs, together * count,
                buffer + c * count * outputs, outputs);
    }
    return {buffer, count * outputs, 1, outputs};
  }
  for (std::int64_t tap = 0; tap < count; ++tap) {
    transpose(taps.data + tap * taps.tap_stride, taps.output_stride, outputs, channels,
              buffer + tap * channels * outputs, outputs);
  }
  return {buffer, outputs, 1, channels * outputs};
}

}  // namespace facula::cpu
