// Averages of adaptive windows of unequal size, forward and backward, in both layouts. Both go over
// lines of an image, which are summed for all columns and channels at once.
#include <algorithm>
#include <vector>

#include <facula/ops.h>

#include "backends/cpu/kernels/pool.h"
#include "backends/cpu/loops_of.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/schema/channels.h"
#include "ops/schema/uneven_pool.h"

namespace facula::cpu {
namespace {

/// Images [H, W, C] of a dense tensor in channels_last; planes are images of one channel.
struct Images {
  explicit Images(const Tensor& tensor, bool channels_last)
      : count(tensor.size(0) * (channels_last ? 1 : tensor.size(1))),
        height(tensor.size(2)),
        width(tensor.size(3)),
        channels(channels_last ? tensor.size(1) : 1) {}
  std::int64_t lines() const { return count * height; }
  std::int64_t line() const { return width * channels; }

  std::int64_t count, height, width, channels;
};

/// Calls body(line) for all lines, with slices that depend on sizes alone.
template <class Body>
void for_lines(std::int64_t lines, std::int64_t elements_per_line, Body body) {
  constexpr std::int64_t kSliceElements = 16384;
  const std::int64_t group =
      std::max<std::int64_t>(1, kSliceElements / std::max<std::int64_t>(1, elements_per_line));
  base::parallel_for(base::divide_up(lines, group), [&](std::int64_t slice) {
    const std::int64_t last = std::min((slice + 1) * group, lines);
    for (std::int64_t line = slice * group; line < last; ++line) body(line);
  });
}

std::vector<AdaptiveWindow> windows_over(std::int64_t size, std::int64_t count) {
  std::vector<AdaptiveWindow> windows;
  for (std::int64_t i = 0; i < count; ++i) windows.emplace_back(i, count, size);
  return windows;
}

/// What a line of windows holds, each over the number of its positions.
template <class T>
void share_out(const T* line, const Images& windows, const AdaptiveWindow& row,
               const std::vector<AdaptiveWindow>& columns, T* out) {
  for (std::int64_t w = 0; w < windows.width; ++w, line += windows.channels) {
    const T share = T(1) / static_cast<T>(row.positions() * columns[w].positions());
    for (std::int64_t c = 0; c < windows.channels; ++c) *out++ = line[c] * share;
  }
}

template <class T>
void forward(const KernelArgs& args) {
  const bool channels_last = channel_format(args.in(0)) == kChannelsLast;
  const Tensor input = args.in(0).detach().contiguous(channels_last ? kChannelsLast : kContiguous);
  const Images in(input, channels_last), out(args.out(), channels_last);
  const auto rows = windows_over(in.height, out.height);
  const auto columns = windows_over(in.width, out.width);
  const T* x = input.impl()->typed<T>();
  T* y = args.out().impl()->typed<T>();
  const auto& loops = loops_of<T>(avg_pool_kernels());
  const std::int64_t per_line = in.line() * (in.height / out.height + 1);
  for_lines(out.lines(), per_line, [&](std::int64_t at) {
    const AdaptiveWindow row = rows[at % out.height];
    const Scratch<T> line(in.line());
    const T* first = x + (at / out.height * in.height + row.first) * in.line();
    T* to = y + at * out.line();
    loops.sum_lines(first, row.positions(), in.line(), line.data());
    loops.sum_windows(line.data(), in.channels, columns.data(), out.width, to);
    share_out(to, out, row, columns, to);
  });
}

/// Lines of gradients become as wide as the images; then each line of an image is the sum of those
/// of the windows over it.
template <class T>
void backward(const KernelArgs& args) {
  if (args.out().numel() == 0) return;  // of any height and width
  const bool channels_last = channel_format(args.out()) == kChannelsLast;
  const Tensor grad = args.in(0).detach().contiguous(channels_last ? kChannelsLast : kContiguous);
  const Images in(args.out(), channels_last), out(grad, channels_last);
  const auto rows = windows_over(in.height, out.height);
  const auto columns = windows_over(in.width, out.width);
  const auto over_rows = windows_over(out.height, in.height);
  const auto over_columns = windows_over(out.width, in.width);
  const T* g = grad.impl()->typed<T>();
  T* dx = args.out().impl()->typed<T>();
  const auto& loops = loops_of<T>(avg_pool_kernels());
  const Scratch<T> wide(out.lines() * in.line());
  for_lines(out.lines(), in.line(), [&](std::int64_t at) {
    const Scratch<T> shares(out.line());
    share_out(g + at * out.line(), out, rows[at % out.height], columns, shares.data());
    loops.sum_windows(shares.data(), in.channels, over_columns.data(), in.width,
                      wide.data() + at * in.line());
  });
  for_lines(in.lines(), in.line(), [&](std::int64_t at) {
    const AdaptiveWindow over = over_rows[at % in.height];
    const T* first = wide.data() + (at / in.height * out.height + over.first) * in.line();
    loops.sum_lines(first, over.positions(), in.line(), dx + at * in.line());
  });
}

}  // namespace

void register_uneven_pool() {
  add(OpId::uneven_avg_pool2d, {"lines", nullptr, [](const KernelArgs& args) {
                                  args.in(0).dtype() == kFloat32 ? forward<float>(args)
                                                                 : forward<double>(args);
                                }});
  add(OpId::uneven_avg_pool2d_backward, {"lines", nullptr, [](const KernelArgs& args) {
                                           args.in(0).dtype() == kFloat32 ? backward<float>(args)
                                                                          : backward<double>(args);
                                         }});
}

}  // namespace facula::cpu
