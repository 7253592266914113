// Which positions of images a tap of a convolution's weights brings together.
#pragma once

#include <algorithm>
#include <cstdint>

namespace facula::cpu {

/// The positions of the result of a convolution, along one dimension, that meet the image through a
/// tap; the others meet padding.
struct TapMeeting {
  TapMeeting(std::int64_t tap, std::int64_t dilation, std::int64_t step, std::int64_t padding,
             std::int64_t inputs, std::int64_t outputs)
      : stride(step), offset(tap * dilation - padding) {
    begin = offset < 0 ? (stride - 1 - offset) / stride : 0;
    end = offset < inputs ? std::min(outputs, (inputs - 1 - offset) / stride + 1) : 0;
  }
  /// The position of the image that one of the result meets.
  std::int64_t input(std::int64_t output) const { return output * stride + offset; }
  /// The position of the result that one of the image meets, or -1.
  std::int64_t output(std::int64_t input) const {
    const std::int64_t distance = input - offset;
    return distance % stride == 0 && contains(distance / stride) ? distance / stride : -1;
  }
  std::int64_t count() const { return std::max<std::int64_t>(0, end - begin); }
  bool contains(std::int64_t output) const { return output >= begin && output < end; }

  std::int64_t stride, offset, begin, end;
};

}  // namespace facula::cpu
