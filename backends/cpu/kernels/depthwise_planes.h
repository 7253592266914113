// The inner loop of depthwise convolutions on images in planes: vectors lie along the lines.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

/// Square kernels for which there is a loop.
constexpr bool has_plane_loop(std::int64_t rows, std::int64_t columns) {
  return rows == columns && (rows == 3 || rows == 5 || rows == 7);
}

/// out[y][x] = bias + sum over taps i and j of weights[i][j] * in[y + i][x + j * column_step], row
/// by row, in a single partial sum: no cutting changes bits. Up to a vector behind the last element
/// of `in` is read.
struct DepthwisePlane {
  std::int64_t size;  ///< of the kernel, in either direction
  std::int64_t column_step;
  const float* weights;
  float bias;
  const float* in;
  std::int64_t in_stride;  ///< elements from line to line
  std::int64_t lines, width;
  float* out;
  std::int64_t out_stride;
};

struct DepthwisePlaneLoops {
  void (*correlate)(const DepthwisePlane& plane);
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(DepthwisePlaneLoops, depthwise_planes)
