#include "data/resample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include <facula/error.h>

#include "base/check.h"
#include "base/divide_up.h"
#include "base/per_thread.h"
#include "data/pixel_kernels.h"

namespace facula::data {
namespace {

/// What each position of one axis of the result is made of.
struct Axis {
  std::int64_t from = 0, to = 0;
  Interpolation interpolation = Interpolation::nearest;
  std::uint64_t last_use = 0;
  /// Position x is made of pixels first[x] ... first[x] + taps - 1 with the weights from
  /// weights[x * pairs]. The weights go on for what a group of kBlendGroup may take beyond the end.
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
  axis.taps = 1;
  for (std::int64_t x = 0; x < axis.to; ++x, center += scale) {
    const auto pixel = std::min(static_cast<std::int64_t>(center), axis.from - 1);
    axis.first.push_back(static_cast<std::int32_t>(pixel));
  }
}

/// Rounded half away from zero.
std::int32_t fixed_point(double weight) {
  const double scaled = weight * (1 << kWeightBits);
  return static_cast<std::int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

/// The filter is as wide as its support in pixels of the larger image, so that every pixel counts
/// when the image shrinks. Weights of a position add up to 1 also at the borders.
void weigh(Axis& axis, std::vector<double>& exact) {
  const Filter filter = filter_of(axis.interpolation);
  const double scale = static_cast<double>(axis.from) / static_cast<double>(axis.to);
  const double widening = std::max(scale, 1.0);
  const double support = filter.support * widening, narrowing = 1 / widening;
  const auto most = std::min(axis.from, static_cast<std::int64_t>(std::ceil(support)) * 2 + 1);
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
      axis.weights[static_cast<std::size_t>(x * axis.pairs + t / 2)].set(static_cast<int>(t % 2),
                                                                         fixed_point(weight));
    }
  }
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
    interpolation == Interpolation::nearest ? choose_nearest(next) : weigh(next, exact_);
    axis = std::move(next);
    return axis;
  }

 private:
  std::array<Axis, 8> axes_;
  std::uint64_t time_ = 0;
  std::vector<double> exact_;  // weights before they are rounded
};

struct Scratch {
  AxisCache axes;
  std::vector<std::uint8_t> strip, row;
  std::vector<std::int32_t> columns;
};

std::uint8_t* at_least(std::vector<std::uint8_t>& memory, std::int64_t bytes) {
  if (std::ssize(memory) < bytes) memory.resize(static_cast<std::size_t>(bytes));
  return memory.data();
}

/// Positions begin ... end - 1 of the source.
struct Range {
  std::int64_t begin, end;

  std::int64_t size() const { return end - begin; }
};

/// What positions first ... first + size - 1 of the result are made of; the axis may be null for
/// one that stays as it is.
Range range_of(const Axis* axis, std::int64_t first, std::int64_t size) {
  if (!axis) return {first, first + size};
  const auto last = static_cast<std::size_t>(first + size - 1);
  return {axis->first[static_cast<std::size_t>(first)], axis->first[last] + axis->taps};
}

static_assert(RowReader::kSlack >= kBlendSlack);

/// Filtered horizontally at once: as many as share the preparation of a kernel, and few enough to
/// be met in the cache.
constexpr std::int64_t kRowsAtOnce = 32;

/// Rows of the source, filtered horizontally: a range of them that moves down the image.
class Strip {
 public:
  /// `reader` yields `rows` of the source, from the first column on that columns left ... left +
  /// width - 1 of the result are made of.
  Strip(RowReader& reader, const Range& rows, const Axis* axis, std::int64_t left,
        std::int64_t width, std::int64_t channels, Scratch& scratch)
      : reader_(reader),
        axis_(axis),
        left_(left),
        width_(width),
        channels_(channels),
        stride_(width * channels + kBlendSlack),
        last_(rows.end),
        begin_(rows.begin),
        end_(rows.begin),
        memory_(scratch.strip),
        columns_(scratch.columns) {
    if (!axis) return;
    columns_.clear();
    const std::int32_t* first = axis->first.data() + left;
    for (std::int64_t x = 0; x < width; ++x) columns_.push_back(first[x] - first[0]);
    // What a group of the kernel takes beyond the end must lie inside, too.
    columns_.insert(columns_.end(), kBlendGroup - 1, columns_.back());
  }

  std::int64_t stride() const { return stride_; }
  const std::uint8_t* row(std::int64_t y) const { return memory_.data() + (y - begin_) * stride_; }

  /// Rows begin ... end - 1 become available; neither may be less than in the call before, and none
  /// may be left out.
  void need(std::int64_t begin, std::int64_t end) {
    if (end <= end_) return;
    const std::int64_t kept = end_ - begin;
    const std::int64_t steps = base::divide_up(end - end_, kRowsAtOnce);
    const std::int64_t last = std::min(last_, end_ + steps * kRowsAtOnce);
    std::uint8_t* strip = at_least(memory_, (last - begin) * stride_);
    std::memmove(strip, strip + (begin - begin_) * stride_,
                 static_cast<std::size_t>(kept * stride_));
    begin_ = begin;
    while (end_ < last) filter(std::min(kRowsAtOnce, last - end_));
  }

 private:
  /// Appends the next `count` rows.
  void filter(std::int64_t count) {
    const PixelRows rows = reader_.next(count);
    std::uint8_t* destination = memory_.data() + (end_ - begin_) * stride_;
    end_ += count;
    if (!axis_) {
      for (std::int64_t y = 0; y < count; ++y) {
        std::memcpy(destination + y * stride_, rows.pixels + y * rows.stride,
                    static_cast<std::size_t>(width_ * channels_));
      }
      return;
    }
    pixel_kernels().blend_pixels({.source = rows.pixels,
                                  .source_stride = rows.stride,
                                  .destination = destination,
                                  .destination_stride = stride_,
                                  .height = count,
                                  .width = width_,
                                  .channels = channels_,
                                  .first = columns_.data(),
                                  .weights = axis_->weights_of(left_),
                                  .pairs = axis_->pairs});
  }

  RowReader& reader_;
  const Axis* axis_;
  std::int64_t left_, width_, channels_, stride_;
  std::int64_t last_, begin_, end_;
  std::vector<std::uint8_t>& memory_;
  std::vector<std::int32_t>& columns_;
};

template <int channels>
void pick(const std::uint8_t* from, const std::int32_t* first, std::int64_t width,
          std::uint8_t* to) {
  for (std::int64_t x = 0; x < width; ++x) {
    std::memcpy(to + x * channels, from + std::int64_t{first[x] - first[0]} * channels, channels);
  }
}

using Emit = FunctionRef<void(std::int64_t y, const std::uint8_t* row)>;

void pick_nearest(RowReader& reader, const Axis& rows, const Axis& columns, const Rect& window,
                  std::int64_t channels, Scratch& scratch, Emit emit) {
  std::uint8_t* row = at_least(scratch.row, window.width * channels);
  const std::int32_t* lines = rows.first.data() + window.top;
  std::int64_t read = lines[0];
  for (std::int64_t y = 0; y < window.height; ++y) {
    const std::uint8_t* pixels = nullptr;
    for (; read <= lines[y]; ++read) pixels = reader.next(1).pixels;
    if (pixels) {
      const auto pick_row = channels == 3 ? pick<3> : pick<1>;
      pick_row(pixels, columns.first.data() + window.left, window.width, row);
    }
    emit(y, row);
  }
}

void filter(RowReader& reader, const Range& range, const Axis* rows, const Axis* columns,
            const Rect& window, std::int64_t channels, Scratch& scratch, Emit emit) {
  const std::int64_t bytes = window.width * channels;
  Strip strip(reader, range, columns, window.left, window.width, channels, scratch);
  std::uint8_t* row = at_least(scratch.row, bytes);
  for (std::int64_t y = 0; y < window.height; ++y) {
    const Range taps = range_of(rows, window.top + y, 1);
    strip.need(taps.begin, taps.end);
    const std::uint8_t* made = strip.row(taps.begin);
    if (rows) {
      pixel_kernels().blend_rows(made, strip.stride(), rows->weights_of(window.top + y), rows->taps,
                                 bytes, row);
      made = row;
    }
    emit(y, made);
  }
}

}  // namespace

void resample(const PixelSource& source, const Resizing& resizing, Emit emit) {
  const auto& [region, height, width, interpolation, window] = resizing;
  check<ValueError>(std::max({region.height, region.width, height, width}) <= INT32_MAX,
                    "resize: {} x {} to {} x {}: sides are limited to 2^31 - 1", region.height,
                    region.width, height, width);
  auto& scratch = base::per_thread<Scratch>();
  const bool nearest = interpolation == Interpolation::nearest;
  const auto axis = [&](std::int64_t from, std::int64_t to) {
    return from == to && !nearest ? nullptr : &scratch.axes.get(from, to, resizing.interpolation);
  };
  const Axis* rows = axis(region.height, height);
  const Axis* columns = axis(region.width, width);
  const Range down = range_of(rows, window.top, window.height);
  const Range across = range_of(columns, window.left, window.width);
  const auto reader = source.rows(
      {region.top + down.begin, region.left + across.begin, down.size(), across.size()});
  if (nearest) {
    pick_nearest(*reader, *rows, *columns, window, source.channels, scratch, emit);
  } else {
    filter(*reader, down, rows, columns, window, source.channels, scratch, emit);
  }
}

}  // namespace facula::data
