#include "data/resample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include <facula/error.h>

#include "base/check.h"
#include "data/pixel_kernels.h"

namespace facula::data {
namespace {

/// What each position of one axis of the result is made of.
struct Axis {
  std::int64_t from = 0, to = 0;
  Interpolation interpolation = Interpolation::nearest;
  std::uint64_t last_use = 0;
  /// Position x is made of pixels first[x] ... first[x] + taps - 1 with the weights from
  /// weights[x * pairs]. Both tables go on for what a group of kBlendGroup may take beyond the end.
  std::int64_t taps = 1, pairs = 0;
  std::vector<std::int32_t> first;
  std::vector<WeightPair> weights;

  const WeightPair* weights_of(std::int64_t x) const { return weights.data() + x * pairs; }
};

struct Filter {
  double support;
  double (*value)(double distance);
};

Filter filter_of(Interpolation interpolation) {
  if (interpolation == Interpolation::bicubic) {
    // Keys' cubic convolution with a = -0.5.
    return {2.0, [](double x) {
              x = std::abs(x);
              if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
              return x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0.0;
            }};
  }
  return {1.0, [](double x) { return std::max(0.0, 1 - std::abs(x)); }};
}

/// Sums of coordinates, not products: Pillow's rounding decides between neighbours.
void choose_nearest(Axis& axis) {
  const double scale = static_cast<double>(axis.from) / static_cast<double>(axis.to);
  double center = scale * 0.5;
  for (std::int64_t x = 0; x < axis.to; ++x, center += scale) {
    const auto pixel = std::min(static_cast<std::int64_t>(center), axis.from - 1);
    axis.first.push_back(static_cast<std::int32_t>(pixel));
  }
}

/// The filter is as wide as its support in pixels of the larger image, so that every pixel counts
/// when the image shrinks. Weights of a position add up to 1 also at the borders.
void weigh(Axis& axis) {
  const Filter filter = filter_of(axis.interpolation);
  const double scale = static_cast<double>(axis.from) / static_cast<double>(axis.to);
  const double widening = std::max(scale, 1.0);
  const double support = filter.support * widening, narrowing = 1 / widening;
  const auto most = std::min(axis.from, static_cast<std::int64_t>(std::ceil(support)) * 2 + 1);
  thread_local std::vector<double> exact;
  exact.assign(static_cast<std::size_t>(axis.to * most), 0);
  axis.taps = 1;
  for (std::int64_t x = 0; x < axis.to; ++x) {
    const double center = (static_cast<double>(x) + 0.5) * scale;
    const auto begin = std::max<std::int64_t>(static_cast<std::int64_t>(center - support + 0.5), 0);
    const auto end = std::min(static_cast<std::int64_t>(center + support + 0.5), axis.from);
    double* weights = exact.data() + x * most;
    double sum = 0;
    for (std::int64_t t = 0; t < end - begin; ++t) {
      weights[t] = filter.value((static_cast<double>(begin + t) - center + 0.5) * narrowing);
      sum += weights[t];
    }
    for (std::int64_t t = 0; t < end - begin; ++t) weights[t] /= sum;
    axis.first.push_back(static_cast<std::int32_t>(begin));
    axis.taps = std::max(axis.taps, end - begin);
  }
  axis.pairs = (axis.taps + 1) / 2;
  const std::int64_t positions = axis.to + kBlendGroup - 1;  // a window may begin anywhere
  axis.weights.assign(static_cast<std::size_t>(positions * axis.pairs), {});
  for (std::int64_t x = 0; x < axis.to; ++x) {
    // At the far border, taps with weight 0 go in front instead of beyond the image.
    auto& first = axis.first[static_cast<std::size_t>(x)];
    const std::int64_t moved = std::max<std::int64_t>(first + axis.taps - axis.from, 0);
    first -= static_cast<std::int32_t>(moved);
    for (std::int64_t t = moved; t < axis.taps; ++t) {
      const double weight = exact[static_cast<std::size_t>(x * most + t - moved)];
      axis.weights[static_cast<std::size_t>(x * axis.pairs + t / 2)].set(
          static_cast<int>(t % 2),
          static_cast<std::int32_t>(std::lround(std::ldexp(weight, kWeightBits))));
    }
  }
  axis.first.resize(static_cast<std::size_t>(positions), 0);
}

/// The axes used last by this thread.
class AxisCache {
 public:
  /// Valid until the second next call.
  const Axis& get(std::int64_t from, std::int64_t to, Interpolation interpolation) {
    ++time_;
    for (Axis& axis : axes_) {
      if (axis.from == from && axis.to == to && axis.interpolation == interpolation) {
        axis.last_use = time_;
        return axis;
      }
    }
    Axis& axis = *std::min_element(axes_.begin(), axes_.end(), [](const Axis& a, const Axis& b) {
      return a.last_use < b.last_use;
    });
    // Empty until it is complete, but with its memory.
    Axis next = std::exchange(axis, {});
    next.from = from;
    next.to = to;
    next.interpolation = interpolation;
    next.last_use = time_;
    next.first.clear();
    interpolation == Interpolation::nearest ? choose_nearest(next) : weigh(next);
    axis = std::move(next);
    return axis;
  }

 private:
  std::array<Axis, 8> axes_;
  std::uint64_t time_ = 0;
};

struct Scratch {
  AxisCache axes;
  std::vector<std::uint8_t> strip, tail;
};

std::uint8_t* at_least(std::vector<std::uint8_t>& memory, std::int64_t bytes) {
  if (std::ssize(memory) < bytes) memory.resize(static_cast<std::size_t>(bytes));
  return memory.data();
}

/// Rows of the source, filtered horizontally: a range of them that moves down the image.
class Strip {
 public:
  /// Columns left ... left + width - 1 of the result; `axis` is null where rows stay as they are.
  Strip(const PixelView& source, const Axis* axis, std::int64_t left, std::int64_t width,
        Scratch& scratch)
      : source_(source), axis_(axis), left_(left), width_(width), scratch_(scratch) {
    stride_ = axis ? width * source.channels + kBlendSlack : source.stride;
  }

  std::int64_t stride() const { return stride_; }
  const std::uint8_t* row(std::int64_t y) const {
    return axis_ ? scratch_.strip.data() + (y - begin_) * stride_
                 : source_.pixels + y * stride_ + left_ * source_.channels;
  }

  /// Rows begin ... end - 1 become available; neither may be less than in the call before.
  void need(std::int64_t begin, std::int64_t end) {
    if (!axis_) return;
    const std::int64_t kept = std::max<std::int64_t>(end_ - begin, 0);
    std::uint8_t* strip = at_least(scratch_.strip, (end - begin) * stride_);
    if (kept > 0) std::memmove(strip, strip + (begin - begin_) * stride_, kept * stride_);
    begin_ = begin;
    end_ = end;
    filter(begin + kept, end);
  }

 private:
  void filter(std::int64_t begin, std::int64_t end) {
    // Of the last rows of an image, copies are read: what lies beyond may not be ours.
    const std::int64_t last = (kBlendSlack + source_.stride - 1) / source_.stride;
    const std::int64_t whole = std::clamp(source_.height - last, begin, end);
    if (whole > begin) {
      blend(source_.pixels + begin * source_.stride, source_.stride, begin, whole);
    }
    if (end == whole) return;
    const std::int64_t bytes = source_.width * source_.channels;
    const std::int64_t stride = bytes + kBlendSlack;
    std::uint8_t* tail = at_least(scratch_.tail, (end - whole) * stride);
    for (std::int64_t y = whole; y < end; ++y) {
      std::memcpy(tail + (y - whole) * stride, source_.pixels + y * source_.stride,
                  static_cast<std::size_t>(bytes));
    }
    blend(tail, stride, whole, end);
  }

  void blend(const std::uint8_t* rows, std::int64_t stride, std::int64_t begin, std::int64_t end) {
    pixel_kernels().blend_pixels({.source = rows,
                                  .source_stride = stride,
                                  .destination = scratch_.strip.data() + (begin - begin_) * stride_,
                                  .destination_stride = stride_,
                                  .height = end - begin,
                                  .width = width_,
                                  .channels = source_.channels,
                                  .first = axis_->first.data() + left_,
                                  .weights = axis_->weights_of(left_),
                                  .pairs = axis_->pairs});
  }

  const PixelView& source_;
  const Axis* axis_;
  std::int64_t left_, width_, stride_;
  std::int64_t begin_ = 0, end_ = 0;
  Scratch& scratch_;
};

template <int channels>
void pick_nearest(const PixelView& source, const Axis& rows, const Axis& columns,
                  const Rect& window, std::uint8_t* destination) {
  for (std::int64_t y = 0; y < window.height; ++y) {
    const std::uint8_t* from =
        source.pixels + rows.first[static_cast<std::size_t>(window.top + y)] * source.stride;
    const std::int32_t* first = columns.first.data() + window.left;
    for (std::int64_t x = 0; x < window.width; ++x, destination += channels) {
      std::memcpy(destination, from + std::int64_t{first[x]} * channels, channels);
    }
  }
}

/// Rows of the result whose sources are filtered horizontally in one go, to meet them in the cache.
constexpr std::int64_t kBandRows = 16;

}  // namespace

void resample(const PixelView& source, std::int64_t height, std::int64_t width,
              Interpolation interpolation, const Rect& window, std::uint8_t* destination) {
  check<ValueError>(std::max({source.height, source.width, height, width}) <= INT32_MAX,
                    "resize: {} x {} to {} x {}: sides are limited to 2^31 - 1", source.height,
                    source.width, height, width);
  thread_local Scratch scratch;
  const Axis& rows = scratch.axes.get(source.height, height, interpolation);
  const Axis& columns = scratch.axes.get(source.width, width, interpolation);
  if (interpolation == Interpolation::nearest) {
    const auto pick = source.channels == 3 ? pick_nearest<3> : pick_nearest<1>;
    return pick(source, rows, columns, window, destination);
  }
  const bool vertical = source.height != height;
  Strip strip(source, source.width != width ? &columns : nullptr, window.left, window.width,
              scratch);
  const std::int64_t bytes = window.width * source.channels;
  const auto first = [&](std::int64_t y) -> std::int64_t {
    return vertical ? rows.first[static_cast<std::size_t>(y)] : y;
  };
  const std::int64_t end = window.top + window.height;
  for (std::int64_t top = window.top; top < end; top += kBandRows) {
    const std::int64_t bottom = std::min(top + kBandRows, end);
    strip.need(first(top), first(bottom - 1) + (vertical ? rows.taps : 1));
    for (std::int64_t y = top; y < bottom; ++y, destination += bytes) {
      if (vertical) {
        pixel_kernels().blend_rows(strip.row(first(y)), strip.stride(), rows.weights_of(y),
                                   rows.taps, bytes, destination);
      } else {
        std::memcpy(destination, strip.row(y), static_cast<std::size_t>(bytes));
      }
    }
  }
}

}  // namespace facula::data
