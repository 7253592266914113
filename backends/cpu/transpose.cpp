#include "backends/cpu/transpose.h"

#include <algorithm>
#include <type_traits>

#include "backends/cpu/kernels/convert.h"
#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/kernels/interleave.h"
#include "backends/cpu/streaming.h"
#include "base/divide_up.h"
#include "base/small_vector.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/schema/shape.h"

namespace facula::cpu {
namespace {

/// Elements of a tile.
constexpr std::int64_t kTileElements = 1024;
constexpr std::int64_t kSliceElements = 16384;
/// Below this, planning costs more than it saves.
constexpr std::int64_t kLeastElements = 256;

struct Axis {
  std::int64_t size, to, from;  // strides in elements
};
using Axes = SmallVector<Axis, kMaxDims>;

/// The dimensions by ascending stride of the destination, neighbours joined where one stride
/// serves.
Axes merged_axes(const TensorImpl& destination, const Dims& from) {
  Axes axes;
  for (int d = destination.dim; d-- > 0;) {
    if (destination.sizes[d] != 1) {
      axes.push_back({destination.sizes[d], destination.strides[d], from[d]});
    }
  }
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.to < b.to; });
  Axes merged;
  for (const Axis& axis : axes) {
    const bool continues = !merged.empty() && axis.to == merged.back().to * merged.back().size &&
                           axis.from == merged.back().from * merged.back().size;
    if (continues) {
      merged.back().size *= axis.size;
    } else {
      merged.push_back(axis);
    }
  }
  return merged;
}

/// A plane of two dimensions, one contiguous in the destination and one in the source, cut into
/// tiles; and the dimensions around it.
struct Plan {
  Axis inner, other;  // inner.to == 1, other.from == 1
  Axes outer;
  std::int64_t tile_inner, tile_other;
  /// Elements of four bytes and more are transposed in registers, square by square, so that lines
  /// of the cache are read and written as wholes. Others go through a buffer, so that memory is
  /// read and written in runs even where the strides are powers of two, which compete for the same
  /// places of a cache.
  bool buffered;
  bool stream;  ///< past the caches

  std::int64_t tiles_inner() const { return base::divide_up(inner.size, tile_inner); }
  std::int64_t tiles_other() const { return base::divide_up(other.size, tile_other); }
};

bool are_interleaved(std::int64_t channels, std::int64_t stride) {
  return channels == stride && channels >= kFewestInterleaved && channels <= kMostInterleaved;
}

/// `n` rows of `k` elements, `stride` apart, as `k` rows of `n`.
template <class E>
void transpose(const E* rows, std::int64_t stride, std::int64_t n, std::int64_t k, E* to,
               std::int64_t to_stride) {
  const InterleaveLoops<E>& interleave = interleave_loops<E>();
  if (are_interleaved(k, stride)) {
    interleave.split(rows, k, n, to, to_stride);
  } else if (are_interleaved(n, to_stride)) {
    interleave.join(rows, stride, n, k, to);
  } else if constexpr (sizeof(E) >= sizeof(float)) {
    using F = std::conditional_t<sizeof(E) == sizeof(float), float, double>;
    gemm_loops<F>().transpose(reinterpret_cast<const F*>(rows), stride, n, k,
                              reinterpret_cast<F*>(to), to_stride);
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < k; ++j) to[j * to_stride + i] = rows[i * stride + j];
    }
  }
}

template <class E>
void copy_tile(const E* from, E* to, const Plan& plan, std::int64_t n_inner, std::int64_t n_other) {
  if (!plan.buffered) {
    return transpose(from, plan.inner.from, n_inner, n_other, to, plan.other.to);
  }
  alignas(64) E buffer[kTileElements];
  transpose(from, plan.inner.from, n_inner, n_other, buffer, n_inner);
  const bool joined = plan.other.to == n_inner;
  const std::int64_t runs = joined ? 1 : n_other, length = joined ? n_other * n_inner : n_inner;
  for (std::int64_t k = 0; k < runs; ++k, to += plan.other.to) {
    const E* run = buffer + k * length;
    if (plan.stream) {
      stream(to, run, length * static_cast<std::int64_t>(sizeof(E)));
    } else {
      std::copy_n(run, length, to);
    }
  }
}

template <class E>
void run(const Plan& plan, const TensorImpl& source, const TensorImpl& destination) {
  const std::int64_t across = plan.tiles_inner(), down = plan.tiles_other();
  std::int64_t tiles = across * down;
  for (const Axis& axis : plan.outer) tiles *= axis.size;
  const std::int64_t together =
      std::max<std::int64_t>(1, kSliceElements / (plan.tile_inner * plan.tile_other));
  base::parallel_for(base::divide_up(tiles, together), [&](std::int64_t slice) {
    const std::int64_t end = std::min((slice + 1) * together, tiles);
    for (std::int64_t tile = slice * together; tile < end; ++tile) {
      const std::int64_t i = tile % across * plan.tile_inner;
      const std::int64_t k = tile / across % down * plan.tile_other;
      const E* from = source.typed<E>() + i * plan.inner.from + k;
      E* to = destination.typed<E>() + i + k * plan.other.to;
      std::int64_t rest = tile / (across * down);
      for (const Axis& axis : plan.outer) {
        from += rest % axis.size * axis.from;
        to += rest % axis.size * axis.to;
        rest /= axis.size;
      }
      copy_tile(from, to, plan, std::min(plan.tile_inner, plan.inner.size - i),
                std::min(plan.tile_other, plan.other.size - k));
    }
    if (plan.stream) finish_streaming();
  });
}

}  // namespace

bool copy_transposed(const Tensor& source, const Tensor& destination) {
  const TensorImpl& to = *destination.impl();
  if (to.numel < kLeastElements) return false;
  const Axes axes =
      merged_axes(to, broadcast_strides(source.sizes(), source.strides(), to.size_list()));
  if (axes.size() < 2 || axes[0].to != 1 || axes[0].from == 1) return false;
  Plan plan;
  plan.inner = axes[0];
  plan.other.size = 0;
  for (std::size_t i = 1; i < axes.size(); ++i) {
    if (axes[i].from == 1 && plan.other.size == 0) {
      plan.other = axes[i];
    } else {
      plan.outer.push_back(axes[i]);
    }
  }
  if (plan.other.size < 2) return false;
  plan.stream = worth_streaming(destination.nbytes());
  const std::int64_t bytes = size_of(to.dtype);
  const bool interleaved = are_interleaved(plan.other.size, plan.inner.from) ||
                           are_interleaved(plan.inner.size, plan.other.to);
  plan.buffered = plan.stream || (bytes < 4 && !interleaved);
  plan.tile_inner = std::min(plan.inner.size, (plan.stream ? 256 : 64) / bytes);
  plan.tile_other = std::min(plan.other.size, kTileElements / plan.tile_inner);
  plan.tile_inner = std::min(plan.inner.size, kTileElements / plan.tile_other);
  switch (bytes) {
    case 1: run<std::uint8_t>(plan, *source.impl(), to); break;
    case 2: run<std::uint16_t>(plan, *source.impl(), to); break;
    case 4: run<std::uint32_t>(plan, *source.impl(), to); break;
    default: run<std::uint64_t>(plan, *source.impl(), to); break;
  }
  return true;
}

bool copy_short_rows(const Tensor& source, const Tensor& destination) {
  constexpr std::int64_t kLongestRow = 1024, kSliceBytes = 1 << 16;
  const TensorImpl& to = *destination.impl();
  if (to.numel < kLeastElements || worth_streaming(destination.nbytes())) return false;
  const Axes axes =
      merged_axes(to, broadcast_strides(source.sizes(), source.strides(), to.size_list()));
  if (axes.size() < 2 || axes[0].to != 1 || axes[0].from != 1) return false;
  const auto element = static_cast<std::int64_t>(size_of(to.dtype));
  const Axis& next = axes[1];
  const std::int64_t bytes = axes[0].size * element, rows = to.numel / axes[0].size;
  if (bytes > kLongestRow) return false;
  const std::int64_t together = std::max<std::int64_t>(1, kSliceBytes / bytes);
  base::parallel_for(base::divide_up(rows, together), [&](std::int64_t slice) {
    const std::int64_t end = std::min((slice + 1) * together, rows);
    for (std::int64_t row = slice * together, count; row < end; row += count) {
      count = std::min(next.size - row % next.size, end - row);
      std::int64_t to_offset = 0, from_offset = 0, rest = row;
      for (std::size_t d = 1; d < axes.size(); ++d) {
        to_offset += rest % axes[d].size * axes[d].to;
        from_offset += rest % axes[d].size * axes[d].from;
        rest /= axes[d].size;
      }
      convert_kernels().copy_rows(
          reinterpret_cast<char*>(to.data) + to_offset * element, next.to * element,
          reinterpret_cast<char*>(source.impl()->data) + from_offset * element, next.from * element,
          bytes, count);
    }
  });
  return true;
}

void transpose_rows(const float* rows, std::int64_t stride, std::int64_t n, std::int64_t k,
                    float* to, std::int64_t to_stride) {
  if ((n == 1 && to_stride == 1) || (k == 1 && stride == 1)) {
    std::copy_n(rows, n * k, to);
    return;
  }
  transpose(reinterpret_cast<const std::uint32_t*>(rows), stride, n, k,
            reinterpret_cast<std::uint32_t*>(to), to_stride);
}

}  // namespace facula::cpu
