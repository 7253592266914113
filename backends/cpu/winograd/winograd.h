// The parts of Winograd convolution F(4x4, 3x3) on channels_last images. The arithmetic is in
// backends/cpu/kernels/winograd.h.
#pragma once

#include "backends/cpu/convolution.h"
#include "backends/cpu/kernels/winograd.h"

namespace facula::cpu::winograd {

/// Correlation of images [n, h, w, channels] with 3x3 weights to images [n, oh, ow, outputs],
/// stride 1: a convolution, or the gradient of its input.
struct Correlation {
  std::int64_t n, h, w, channels;
  std::int64_t oh, ow, outputs;
  std::int64_t pad_h, pad_w;

  std::int64_t tile_rows() const { return (oh + kTile - 1) / kTile; }
  std::int64_t tile_columns() const { return (ow + kTile - 1) / kTile; }
  std::int64_t tiles() const { return n * tile_rows() * tile_columns(); }
  /// The images that tiles are read from.
  Images<const float> inputs(const float* data) const {
    return {data, h, w, channels, tile_rows(), tile_columns(), pad_h, pad_w};
  }
  /// Those that tiles are written to, or whose gradient is read.
  template <class T>
  Images<T> results(T* data) const {
    return {data, oh, ow, outputs, tile_rows(), tile_columns(), 0, 0};
  }
};

constexpr std::int64_t kAllTaps = kTaps * kTaps;

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

/// With `rotated`, weights are turned by 180 degrees; `bias` may be null.
void correlate(const Correlation& shape, const float* images, const Taps<const float>& taps,
               bool rotated, const float* bias, float* result);

/// The gradient of the weights of correlate(), written densely in the order of `taps`, whose
/// channels or taps are consecutive.
void weight_gradient(const Correlation& shape, const float* images, const float* gradient,
                     const Taps<float>& taps);

/// Rounds up to an odd number of cache lines. Streams that advance together at such distances lie
/// in different sets of the caches.
constexpr std::int64_t odd_lines(std::int64_t floats) { return (((floats + 15) / 16) | 1) * 16; }

constexpr std::int64_t divide_up(std::int64_t n, std::int64_t parts) {
  return (n + parts - 1) / parts;
}
constexpr std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return divide_up(n, multiple) * multiple;
}

/// A place for transformed tiles of as many channels, in whole vectors.
struct Buffer {
  std::int64_t tile_stride, position_stride;

  Buffer(std::int64_t tiles, std::int64_t channels)
      : tile_stride(round_up(channels, 16)), position_stride(odd_lines(tiles * tile_stride)) {}
  std::int64_t numel() const { return kPositions * position_stride; }
  Transformed at(float* data) const { return {data, position_stride, tile_stride}; }
};

}  // namespace facula::cpu::winograd
