// Windows of adaptive pooling.
#pragma once

#include <cstdint>

namespace facula {

/// Window i of `count` over `size` positions: from floor(i * size / count) up to ceil((i + 1) *
/// size / count). With the sizes exchanged, the windows over a position.
struct AdaptiveWindow {
  AdaptiveWindow(std::int64_t i, std::int64_t count, std::int64_t size)
      : first(i * size / count), end(((i + 1) * size + count - 1) / count) {}
  std::int64_t positions() const { return end - first; }

  std::int64_t first, end;
};

/// More windows along a dimension are refused, long before products of positions overflow.
inline constexpr std::int64_t kMostAdaptiveWindows = 65535;

}  // namespace facula
