// Weights of convolutions, tap by tap, in whichever of their layouts.
#pragma once

#include <cstdint>

#include "core/tensor_impl.h"

namespace facula::cpu {

/// Weights in place: channel c, output k and tap t (row by row) are at
/// data[c * channel_stride + k * output_stride + t * tap_stride]. One of the strides is 1.
template <class T>
struct Taps {
  T* data;
  std::int64_t channel_stride, output_stride, tap_stride;

  Taps from(std::int64_t channel, std::int64_t output) const {
    return {data + channel * channel_stride + output * output_stride, channel_stride, output_stride,
            tap_stride};
  }
};

/// The weights, or a copy of them that taps_of() takes.
inline Tensor with_taps(const Tensor& weight) {
  return weight.is_contiguous(kChannelsLast) ? weight : weight.contiguous();
}

/// Those of weights [outputs, channels, kh, kw] that are contiguous or channels_last.
template <class T>
Taps<T> taps_of(const Tensor& weight) {
  const IntList strides = weight.strides();
  return {weight.impl()->typed<float>(), strides[1], strides[0],
          weight.size(3) > 1 ? strides[3] : strides[2]};
}

/// Some channels and outputs of the weights, which have `count` taps, with the outputs next to each
/// other. `buffer` has room for all of them.
Taps<const float> gather_outputs(const Taps<const float>& taps, std::int64_t count,
                                 std::int64_t channels, std::int64_t outputs, float* buffer);

}  // namespace facula::cpu
