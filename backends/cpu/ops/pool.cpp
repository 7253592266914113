// 2-d pooling, forward and backward, in both layouts.
#include "backends/cpu/kernels/pool.h"

#include <algorithm>

#include <facula/ops.h>

#include "backends/cpu/copy.h"
#include "backends/cpu/loops_of.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/streaming.h"
#include "base/check.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/attrs/avg_pool2d.h"
#include "ops/attrs/avg_pool2d_backward.h"
#include "ops/attrs/max_pool2d_backward.h"
#include "ops/attrs/max_pool2d_with_indices.h"
#include "ops/schema/channels.h"
#include "ops/schema/pool.h"

namespace facula::cpu {
namespace {

/// The part of a window along one dimension that lies inside the input.
struct Span {
  std::int32_t first, count;
  std::int64_t padded;  ///< elements including padding, but not beyond its end
};

Span span_of(const PoolAxis& axis, std::int64_t size, std::int64_t window) {
  const std::int64_t start = window * axis.stride - axis.padding;
  const std::int64_t first = axis.first(window);
  const std::int64_t fitting = first < size ? base::divide_up(size - first, axis.dilation) : 0;
  const std::int64_t count = std::min(axis.kernel - axis.skipped(window), fitting);
  const std::int64_t end = std::min(start + axis.kernel, size + axis.padding);
  return {static_cast<std::int32_t>(first),
          static_cast<std::int32_t>(std::max<std::int64_t>(count, 0)), end - start};
}

/// The images of a tensor [N, C, H, W]: one of C channels per batch entry in channels_last, one of
/// a single channel per plane otherwise.
struct Images {
  Images(const Tensor& tensor, MemoryFormat format) {
    const TensorImpl& impl = *tensor.impl();
    const bool channels_last = format == kChannelsLast;
    channels = channels_last ? impl.sizes[1] : 1;
    count = channels_last ? impl.sizes[0] : impl.sizes[0] * impl.sizes[1];
    height = impl.sizes[2];
    width = impl.sizes[3];
  }
  std::int64_t positions() const { return height * width * channels; }
  /// Whether there are enough for all threads.
  bool many() const { return count >= 16; }

  std::int64_t count, channels, height, width;
};

/// How many lines or images of n elements are worth a slice.
std::int64_t slice_of(std::int64_t n) {
  constexpr std::int64_t kSliceElements = 16384;
  return std::max<std::int64_t>(1, kSliceElements / std::max<std::int64_t>(1, n));
}

/// Calls body(i) for i < n, whose groups are spread over the threads.
template <class Body>
void for_groups(std::int64_t n, std::int64_t group, Body body) {
  base::parallel_for(base::divide_up(n, group), [&](std::int64_t slice) {
    const std::int64_t end = std::min((slice + 1) * group, n);
    for (std::int64_t i = slice * group; i < end; ++i) body(i);
  });
}

/// Calls body(image) for every image; images are spread over the threads in groups that depend on
/// their size alone.
template <class Body>
void for_images(const Images& images, Body body) {
  for_groups(images.count, slice_of(images.positions()), body);
}

/// Lines [begin, end) of an image.
struct Band {
  std::int64_t begin, end;
};

/// Calls body(image, band) for bands of lines of the results: large images are cut where they are
/// few.
template <class Body>
void for_bands(const Images& in, const Images& out, Body body) {
  const std::int64_t elements = std::max(in.positions(), out.positions());
  if (out.many()) {
    return for_groups(out.count, slice_of(elements), [&](std::int64_t image) {
      body(image, Band{0, out.height});
    });
  }
  const std::int64_t lines = slice_of(elements / std::max<std::int64_t>(1, out.height));
  const std::int64_t bands = base::divide_up(out.height, lines);
  for_groups(out.count * bands, 1, [&](std::int64_t slice) {
    const std::int64_t begin = slice % bands * lines;
    body(slice / bands, Band{begin, std::min(begin + lines, out.height)});
  });
}

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

/// Calls body(line, first result in it, padded columns) for the windows over some rows of an image
/// that make a line of results: those that lie inside go together, those at its ends come one by
/// one.
template <class Body>
void for_windows(const Images& in, const Images& out, const Span& row, std::int64_t row_step,
                 const PoolAxis& columns, std::int64_t rows_below, Body body) {
  const std::int64_t begin = std::min(out.width, base::divide_up(columns.padding, columns.stride));
  const std::int64_t reach = (columns.kernel - 1) * columns.dilation + 1;
  const std::int64_t fitting = in.width + columns.padding - reach;
  const std::int64_t end =
      std::clamp(fitting < 0 ? begin : fitting / columns.stride + 1, begin, out.width);
  for (std::int64_t w = 0; w < out.width;) {
    const std::int64_t count = w == begin && begin < end ? end - begin : 1;
    const Span column = span_of(columns, in.width, w);
    const PoolLine line{row.first,
                        row.count,
                        narrow(row_step),
                        column.first,
                        column.count,
                        narrow(columns.dilation),
                        narrow(columns.stride),
                        narrow(count),
                        narrow(rows_below)};
    body(line, w, column.padded);
    w += count;
  }
}

/// Calls body(line, position of its first result, padded elements of its windows) for all windows
/// of a band of results, in order.
template <class Body>
void for_lines(const Images& in, const Images& out, const Band& band, const PoolAxis& rows,
               const PoolAxis& columns, Body body) {
  for (std::int64_t h = band.begin; h < band.end; ++h) {
    const Span row = span_of(rows, in.height, h);
    const std::int64_t below = in.height - row.first - row.count * rows.dilation;
    const std::int64_t rows_below = std::clamp<std::int64_t>(below, 0, rows.stride);
    for_windows(in, out, row, rows.dilation, columns, rows_below,
                [&](const PoolLine& line, std::int64_t w, std::int64_t padded) {
                  body(line, h * out.width + w, row.padded * padded);
                });
  }
}

Tensor dense(const Tensor& tensor, MemoryFormat format) {
  return tensor.detach().contiguous(format);
}

/// As many as the widest vectors have lanes.
constexpr std::int64_t kFewestChannels = 16;

/// Maxima of windows of images in a layout, and their positions.
template <class T>
class MaxPool {
 public:
  MaxPool(const KernelArgs& args, const Tensor& input, const Tensor& out, const Tensor& index,
          MemoryFormat format)
      : input_(input),
        in_(input, format),
        out_(out, format),
        x_(input.impl()->typed<T>()),
        y_(out.impl()->typed<T>()),
        index_(index.impl()->typed<std::int32_t>()) {
    const auto& a = args.attrs<ops::max_pool2d_with_indices_attrs>();
    rows_ = pool_axis(a.kernel_size, a.stride, a.padding, a.dilation, 0);
    columns_ = pool_axis(a.kernel_size, a.stride, a.padding, a.dilation, 1);
    stream_ = worth_streaming(out.nbytes() + index.nbytes()) &&
              in_.channels * static_cast<std::int64_t>(sizeof(T)) % kLineBytes == 0;
  }

  /// Whether it is less work to find the maxima of lines first, and then those of lines' maxima.
  bool by_lines() const {
    return rows_.dilation == 1 && 3 * (rows_.stride * columns_.kernel + rows_.kernel) <=
                                      2 * rows_.kernel * columns_.kernel;
  }

  void run() const {
    if (!by_lines()) {
      for_bands(in_, out_, [&](std::int64_t image, const Band& band) { run_windows(image, band); });
    } else if (out_.many()) {
      for_images(in_, [&](std::int64_t image) { run_by_lines(image); });
    } else {
      for (std::int64_t image = 0; image < in_.count; ++image) run_lines_together(image);
    }
  }

 private:
  /// The maxima of lines, as many as are kept: line h is number h modulo that.
  struct Lines {
    Lines(const Images& out, std::int64_t count)
        : count(count), n(out.width * out.channels), values(count * n), positions(count * n) {}
    std::int64_t count, n;
    Scratch<T> values;
    Scratch<std::int32_t> positions;
  };

  void max_line(std::int64_t image, const PoolLine& line, T* out, std::int32_t* index) const {
    loops_of<T>(max_pool_kernels())
        .max_line(x_ + image * in_.positions(), in_.width, in_.channels, line, out, index);
  }
  void run_windows(std::int64_t image, const Band& band) const {
    const std::int64_t first = image * out_.positions();
    for_lines(in_, out_, band, rows_, columns_,
              [&](PoolLine line, std::int64_t position, std::int64_t) {
                line.stream = stream_;
                const std::int64_t to = first + position * out_.channels;
                max_line(image, line, y_ + to, index_ + to);
              });
    if (stream_) finish_streaming();
  }

  /// Of line h of an image.
  void find(std::int64_t image, std::int64_t h, const Lines& lines) const {
    const std::int64_t place = h % lines.count * lines.n;
    for_windows(in_, out_, {narrow(h), 1, 1}, 1, columns_, 0,
                [&](const PoolLine& line, std::int64_t w, std::int64_t) {
                  const std::int64_t to = place + w * out_.channels;
                  max_line(image, line, lines.values.data() + to, lines.positions.data() + to);
                });
  }
  /// Line h of the results.
  void join(std::int64_t image, std::int64_t h, const Span& row, const Lines& lines) const {
    const std::int64_t to = image * out_.positions() + h * lines.n;
    loops_of<T>(max_pool_kernels())
        .max_of_lines(lines.values.data(), lines.positions.data(), lines.count,
                      row.first % lines.count, row.count, lines.n, y_ + to, index_ + to);
  }

  /// Keeps as many lines as a window is high.
  void run_by_lines(std::int64_t image) const {
    const Lines lines(out_, std::min(rows_.kernel, in_.height));
    std::int64_t next = 0;
    for (std::int64_t h = 0; h < out_.height; ++h) {
      const Span row = span_of(rows_, in_.height, h);
      for (; next < row.first + row.count; ++next) find(image, next, lines);
      join(image, h, row, lines);
    }
  }
  /// Keeps all lines, so that the threads share the image.
  void run_lines_together(std::int64_t image) const {
    const Lines lines(out_, in_.height);
    const std::int64_t group = slice_of(lines.n);
    for_groups(in_.height, group, [&](std::int64_t h) { find(image, h, lines); });
    for_groups(out_.height, group,
               [&](std::int64_t h) { join(image, h, span_of(rows_, in_.height, h), lines); });
  }

  Tensor input_;  // perhaps a copy
  Images in_, out_;
  PoolAxis rows_, columns_;
  const T* x_;
  T* y_;
  std::int32_t* index_;
  bool stream_;
};

template <class T>
void max_forward(const KernelArgs& args) {
  const Tensor &x = args.in(0), &y = args.out(0), &index = args.out(1);
  check<ShapeError>(x.size(2) * x.size(3) <= INT32_MAX,
                    "max_pool2d: an image of {} x {} has more than 2^31 positions", x.size(2),
                    x.size(3));
  // Not that of the output, where a single position per channel would be in either layout.
  const MemoryFormat format = channel_format(x);
  const MaxPool<T> pool(args, dense(x, format), y, index, format);
  if (format == kChannelsLast || !pool.by_lines() || x.size(1) < kFewestChannels) {
    return pool.run();
  }
  // Planes are narrow, and their windows at the ends of lines take longer than all others.
  const Tensor values = empty_like(y, kChannelsLast), positions = empty_like(index, kChannelsLast);
  MaxPool<T>(args, dense(x, kChannelsLast), values, positions, kChannelsLast).run();
  copy_elements(values, y);
  copy_elements(positions, index);
}

/// Adds the gradients of one image to where its indices point. Returns the first index that points
/// outside, or null.
template <class T>
const std::int32_t* scatter_image(const T* grad, const std::int32_t* index, const Images& in,
                                  const Images& out, T* target) {
  std::fill_n(target, in.positions(), T(0));
  const auto limit = static_cast<std::uint32_t>(in.height * in.width);
  for (std::int64_t p = 0; p < out.height * out.width; ++p) {
    for (std::int64_t c = 0; c < out.channels; ++c, ++grad, ++index) {
      if (static_cast<std::uint32_t>(*index) >= limit) return index;
      target[*index * in.channels + c] += *grad;
    }
  }
  return nullptr;
}

/// The operands of the gradient of maxima, in the layout of the result.
template <class T>
struct MaxGradient {
  explicit MaxGradient(const KernelArgs& args)
      : format(channel_format(args.out())),
        grad(dense(args.in(0), format)),
        index(dense(args.in(1), format)),
        rectified(args.has(2) ? dense(args.in(2), format) : Tensor()),
        in(args.out(), format),
        out(grad, format) {}

  const T* grads(std::int64_t image) const {
    return grad.impl()->template typed<T>() + image * out.positions();
  }
  const std::int32_t* indices(std::int64_t image) const {
    return index.impl()->template typed<std::int32_t>() + image * out.positions();
  }

  /// From a position of an image on, or null.
  const T* passed(std::int64_t image, std::int64_t position) const {
    if (!rectified.defined()) return nullptr;
    return rectified.impl()->template typed<T>() + image * in.positions() + position * in.channels;
  }

  MemoryFormat format;
  Tensor grad, index, rectified;
  Images in, out;
};

/// Clears gradients where relu, which gave `rectified`, lets none pass.
template <class T>
void rectify(const T* rectified, std::int64_t n, T* gradients) {
  constexpr std::int64_t kStrides[] = {sizeof(T), sizeof(T), sizeof(T)};
  char* const operands[] = {reinterpret_cast<char*>(gradients), reinterpret_cast<char*>(gradients),
                            reinterpret_cast<char*>(const_cast<T*>(rectified))};
  elementwise_loops[static_cast<int>(OpId::relu_backward)][static_cast<int>(dtype_of<T>)](
      nullptr, n, operands, kStrides, Reach{});
}

/// Images are independent, and each is added to in order: the result does not depend on threads.
template <class T>
void max_backward_scatter(const KernelArgs& args) {
  const MaxGradient<T> m(args);
  T* dx = args.out().impl()->typed<T>();
  for_images(m.in, [&](std::int64_t image) {
    T* target = dx + image * m.in.positions();
    const std::int32_t* outside =
        scatter_image(m.grads(image), m.indices(image), m.in, m.out, target);
    check<IndexError>(!outside, "max_pool2d_backward: index {} is outside an image of {} positions",
                      outside ? *outside : 0, m.in.height * m.in.width);
    if (const T* passed = m.passed(image, 0)) rectify(passed, m.in.positions(), target);
  });
}

Refusal refuse_gather(const KernelArgs& args) {
  const auto& a = args.attrs<ops::max_pool2d_backward_attrs>();
  if (a.kernel_size.empty()) return "the windows are not given";
  for (std::int64_t step : a.dilation) {
    if (step != 1) return "dilated windows";
  }
  if (channel_format(args.out()) != kChannelsLast) return "planes";
  if (args.out().size(1) < kFewestChannels) return "few channels";
  return nullptr;
}

/// The windows over a position of a dimension, if they are not dilated: the first, and the end of
/// all of them if there were windows without end.
std::int64_t first_over(const PoolAxis& axis, std::int64_t position) {
  const std::int64_t beyond = position + axis.padding - axis.kernel;
  return beyond < 0 ? 0 : beyond / axis.stride + 1;
}
std::int64_t end_over(const PoolAxis& axis, std::int64_t position) {
  return (position + axis.padding) / axis.stride + 1;
}

/// Names an index that does not lie in its window.
[[noreturn, gnu::cold]] void fail_outside(const std::int32_t* index, const Images& in,
                                          const Images& out, const PoolAxis& rows,
                                          const PoolAxis& columns) {
  const auto covers = [](const PoolAxis& axis, std::int64_t window, std::int64_t position) {
    return first_over(axis, position) <= window && window < end_over(axis, position);
  };
  std::int64_t window = 0;
  for (std::int64_t i = 0; i < out.positions(); ++i) {
    window = i / out.channels;
    const bool inside = index[i] >= 0 && index[i] < in.height * in.width &&
                        covers(rows, window / out.width, index[i] / in.width) &&
                        covers(columns, window % out.width, index[i] % in.width);
    if (!inside) {
      fail<IndexError>(
          "max_pool2d_backward: index {} of window ({}, {}) lies outside that window or the image "
          "of {} x {}; pass the indices and options of the forward pass",
          index[i], window / out.width, window % out.width, in.height, in.width);
    }
  }
  fail<IndexError>("max_pool2d_backward: the indices changed while they were read");
}

/// Every position adds up what the windows over it have for it, in their order, as scatter does: it
/// is written once, and nothing is cleared before.
template <class T>
void max_backward_gather(const KernelArgs& args) {
  const auto& a = args.attrs<ops::max_pool2d_backward_attrs>();
  const MaxGradient<T> m(args);
  const PoolAxis rows = pool_axis(a.kernel_size, a.stride, a.padding, {1}, 0);
  const PoolAxis columns = pool_axis(a.kernel_size, a.stride, a.padding, {1}, 1);
  const Images &in = m.in, &out = m.out;
  T* dx = args.out().impl()->typed<T>();
  const bool stream = worth_streaming(args.out().nbytes()) &&
                      in.channels * static_cast<std::int64_t>(sizeof(T)) % kLineBytes == 0;
  for_images(in, [&](std::int64_t image) {
    std::int64_t hits = 0;
    for (std::int64_t h = 0; h < in.height; ++h) {
      const std::int64_t end = std::min(end_over(rows, h), out.height);
      const std::int64_t begin = std::min(first_over(rows, h), end);
      const std::int64_t at = h * in.width;
      const std::int64_t skipped = begin * out.width * out.channels;
      hits +=
          loops_of<T>(max_pool_kernels())
              .max_line_backward(m.grads(image) + skipped, m.indices(image) + skipped, in.channels,
                                 {in.width, out.width, end - begin, columns.kernel, columns.stride,
                                  columns.padding, stream},
                                 at, m.passed(image, at),
                                 dx + (image * in.height * in.width + at) * in.channels);
    }
    if (stream) finish_streaming();
    if (hits != out.positions()) fail_outside(m.indices(image), in, out, rows, columns);
  });
}

/// What the sums of windows are multiplied by.
template <class T>
T share_of(const PoolLine& line, std::int64_t padded, bool count_include_pad) {
  const std::int64_t inside = std::int64_t{line.rows} * line.columns;
  return T(1) / static_cast<T>(count_include_pad ? padded : inside);
}

/// Whether windows are whole planes, which are rows of a reduction.
template <class Attrs>
bool are_rows(const Attrs& a, const Tensor& images, MemoryFormat format) {
  return format != kChannelsLast && spatial(a.kernel_size, 0) == images.size(2) &&
         spatial(a.kernel_size, 1) == images.size(3) && spatial(a.padding, 0) == 0 &&
         spatial(a.padding, 1) == 0;
}

template <class T>
void average_forward(const KernelArgs& args) {
  const auto& a = args.attrs<ops::avg_pool2d_attrs>();
  const MemoryFormat format = channel_format(args.in(0));
  // Larger ones are summed in double.
  constexpr std::int64_t kMostPixels = 1024;
  const std::int64_t pixels = args.in(0).size(2) * args.in(0).size(3);
  if (are_rows(a, args.in(0), format) && pixels <= kMostPixels) {
    return copy_elements(mean(args.in(0).detach(), {2, 3}, true), args.out());
  }
  const Tensor input = dense(args.in(0), format);
  const Images in(input, format), out(args.out(), format);
  const T* x = input.impl()->typed<T>();
  T* y = args.out().impl()->typed<T>();
  const PoolAxis rows = pool_axis(a.kernel_size, a.stride, a.padding, {1}, 0);
  const PoolAxis columns = pool_axis(a.kernel_size, a.stride, a.padding, {1}, 1);
  for_bands(in, out, [&](std::int64_t image, const Band& band) {
    for_lines(in, out, band, rows, columns,
              [&](const PoolLine& line, std::int64_t position, std::int64_t padded) {
                loops_of<T>(avg_pool_kernels())
                    .average_line(x + image * in.positions(), in.width, in.channels, line,
                                  share_of<T>(line, padded, a.count_include_pad),
                                  y + image * out.positions() + position * out.channels);
              });
  });
}

template <class T>
void average_backward(const KernelArgs& args) {
  const auto& a = args.attrs<ops::avg_pool2d_backward_attrs>();
  const Tensor& result = args.out();
  const MemoryFormat format = channel_format(result);
  if (are_rows(a, result, format)) {
    const auto pixels = static_cast<double>(result.size(2) * result.size(3));
    return copy_elements(args.in(0).detach() / pixels, result);
  }
  const Tensor grad = dense(args.in(0), format);
  const Images in(result, format), out(grad, format);
  const T* g = grad.impl()->typed<T>();
  T* dx = result.impl()->typed<T>();
  const PoolAxis rows = pool_axis(a.kernel_size, a.stride, a.padding, {1}, 0);
  const PoolAxis columns = pool_axis(a.kernel_size, a.stride, a.padding, {1}, 1);
  for_images(in, [&](std::int64_t image) {
    T* target = dx + image * in.positions();
    std::fill_n(target, in.positions(), T(0));
    for_lines(in, out, {0, out.height}, rows, columns,
              [&](const PoolLine& line, std::int64_t position, std::int64_t padded) {
                loops_of<T>(avg_pool_kernels())
                    .average_line_backward(g + image * out.positions() + position * out.channels,
                                           in.width, in.channels, line,
                                           share_of<T>(line, padded, a.count_include_pad), target);
              });
  });
}

}  // namespace

void register_pool() {
  add(OpId::max_pool2d_with_indices, {"windows", nullptr, [](const KernelArgs& args) {
                                        args.in(0).dtype() == kFloat32 ? max_forward<float>(args)
                                                                       : max_forward<double>(args);
                                      }});
  constexpr int kSameBits = 1;
  add(OpId::max_pool2d_backward, {"gather", refuse_gather,
                                  [](const KernelArgs& args) {
                                    args.in(0).dtype() == kFloat32
                                        ? max_backward_gather<float>(args)
                                        : max_backward_gather<double>(args);
                                  },
                                  kSameBits});
  add(OpId::max_pool2d_backward, {"scatter", nullptr,
                                  [](const KernelArgs& args) {
                                    args.in(0).dtype() == kFloat32
                                        ? max_backward_scatter<float>(args)
                                        : max_backward_scatter<double>(args);
                                  },
                                  kSameBits});
  add(OpId::avg_pool2d, {"windows", nullptr, [](const KernelArgs& args) {
                           args.in(0).dtype() == kFloat32 ? average_forward<float>(args)
                                                          : average_forward<double>(args);
                         }});
  add(OpId::avg_pool2d_backward, {"windows", nullptr, [](const KernelArgs& args) {
                                    args.in(0).dtype() == kFloat32 ? average_backward<float>(args)
                                                                   : average_backward<double>(args);
                                  }});
}

}  // namespace facula::cpu
