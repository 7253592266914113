// 2-d pooling as plain loops in double, on contiguous copies.
#include "ops/schema/pool.h"

#include <cmath>

#include "backends/cpu/registration.h"
#include "base/check.h"
#include "core/tensor_impl.h"
#include "ops/attrs/avg_pool2d.h"
#include "ops/attrs/avg_pool2d_backward.h"
#include "ops/attrs/max_pool2d_backward.h"
#include "ops/attrs/max_pool2d_with_indices.h"
#include "ops/schema/uneven_pool.h"

#include <facula/ops.h>

namespace facula::cpu {
namespace {

/// Planes [height, width] of an input and of the windows over it.
struct Planes {
  Planes(const Tensor& input, const Tensor& windows, const PoolAxis& rows, const PoolAxis& columns)
      : count(input.size(0) * input.size(1)),
        height(input.size(2)),
        width(input.size(3)),
        out_height(windows.size(2)),
        out_width(windows.size(3)),
        rows(rows),
        columns(columns) {}

  /// Calls f(position in its plane) for every element of window (y, x) that lies inside.
  template <class F>
  void for_window(std::int64_t y, std::int64_t x, F f) const {
    for (std::int64_t i = 0; i < rows.kernel; ++i) {
      for (std::int64_t j = 0; j < columns.kernel; ++j) {
        const std::int64_t row = y * rows.stride - rows.padding + i * rows.dilation;
        const std::int64_t column = x * columns.stride - columns.padding + j * columns.dilation;
        if (row >= 0 && row < height && column >= 0 && column < width) f(row * width + column);
      }
    }
  }
  /// What an average divides by: elements inside, or all but those beyond the padding.
  double divisor(std::int64_t y, std::int64_t x, bool count_padding) const {
    double inside = 0;
    for_window(y, x, [&](std::int64_t) { ++inside; });
    if (!count_padding) return inside;
    auto reach = [](const PoolAxis& axis, std::int64_t size, std::int64_t window) {
      const std::int64_t start = window * axis.stride - axis.padding;
      return std::min(start + axis.kernel, size + axis.padding) - start;
    };
    return static_cast<double>(reach(rows, height, y) * reach(columns, width, x));
  }
  /// Calls f(plane, y, x, index of the window among all) for every window.
  template <class F>
  void for_each_window(F f) const {
    for (std::int64_t plane = 0, at = 0; plane < count; ++plane) {
      for (std::int64_t y = 0; y < out_height; ++y) {
        for (std::int64_t x = 0; x < out_width; ++x) f(plane, y, x, at++);
      }
    }
  }
  std::int64_t area() const { return height * width; }

  std::int64_t count, height, width, out_height, out_width;
  PoolAxis rows, columns;
};

void max_forward(const KernelArgs& args) {
  const auto& a = args.attrs<ops::max_pool2d_with_indices_attrs>();
  const Planes planes(args.in(0), args.out(),
                      pool_axis(a.kernel_size, a.stride, a.padding, a.dilation, 0),
                      pool_axis(a.kernel_size, a.stride, a.padding, a.dilation, 1));
  const Tensor input = args.in(0).to(kFloat64).contiguous();
  const Tensor values = empty(args.out(0).sizes(), kFloat64);
  const Tensor indices = empty(args.out(1).sizes(), kInt32);
  planes.for_each_window([&](std::int64_t plane, std::int64_t y, std::int64_t x, std::int64_t at) {
    const double* from = input.impl()->typed<double>() + plane * planes.area();
    std::int64_t best = -1;
    planes.for_window(y, x, [&](std::int64_t place) {
      const bool wins = best < 0 || from[place] > from[best] ||
                        (std::isnan(from[place]) && !std::isnan(from[best]));
      if (wins) best = place;
    });
    values.impl()->typed<double>()[at] = from[best];
    indices.impl()->typed<std::int32_t>()[at] = static_cast<std::int32_t>(best);
  });
  args.out(0).copy_(values);
  args.out(1).copy_(indices);
}

void max_backward(const KernelArgs& args) {
  const Tensor grad = args.in(0).to(kFloat64).contiguous(), indices = args.in(1).contiguous();
  const Tensor result = zeros(args.out().sizes(), kFloat64);
  const std::int64_t area = result.size(2) * result.size(3);
  const std::int64_t windows = grad.size(2) * grad.size(3);
  for (std::int64_t i = 0; i < grad.numel(); ++i) {
    const std::int64_t place = indices.impl()->typed<std::int32_t>()[i];
    check<IndexError>(place >= 0 && place < area,
                      "max_pool2d_backward: index {} is outside an image of {} positions", place,
                      area);
    result.impl()->typed<double>()[i / windows * area + place] += grad.impl()->typed<double>()[i];
  }
  if (args.has(2)) result.masked_fill_(args.in(2) <= 0, 0);
  args.out().copy_(result);
}

void average_forward(const KernelArgs& args) {
  const auto& a = args.attrs<ops::avg_pool2d_attrs>();
  const Planes planes(args.in(0), args.out(), pool_axis(a.kernel_size, a.stride, a.padding, {1}, 0),
                      pool_axis(a.kernel_size, a.stride, a.padding, {1}, 1));
  const Tensor input = args.in(0).to(kFloat64).contiguous();
  const Tensor result = empty(args.out().sizes(), kFloat64);
  planes.for_each_window([&](std::int64_t plane, std::int64_t y, std::int64_t x, std::int64_t at) {
    const double* from = input.impl()->typed<double>() + plane * planes.area();
    double sum = 0;
    planes.for_window(y, x, [&](std::int64_t place) { sum += from[place]; });
    result.impl()->typed<double>()[at] = sum / planes.divisor(y, x, a.count_include_pad);
  });
  args.out().copy_(result);
}

void average_backward(const KernelArgs& args) {
  const auto& a = args.attrs<ops::avg_pool2d_backward_attrs>();
  const Planes planes(args.out(), args.in(0), pool_axis(a.kernel_size, a.stride, a.padding, {1}, 0),
                      pool_axis(a.kernel_size, a.stride, a.padding, {1}, 1));
  const Tensor grad = args.in(0).to(kFloat64).contiguous();
  const Tensor result = zeros(args.out().sizes(), kFloat64);
  planes.for_each_window([&](std::int64_t plane, std::int64_t y, std::int64_t x, std::int64_t at) {
    double* to = result.impl()->typed<double>() + plane * planes.area();
    const double share =
        grad.impl()->typed<double>()[at] / planes.divisor(y, x, a.count_include_pad);
    planes.for_window(y, x, [&](std::int64_t place) { to[place] += share; });
  });
  args.out().copy_(result);
}

/// Calls f(position among all, window among all, share of it) for every position of every window.
template <class F>
void for_uneven(const Tensor& images, const Tensor& windows, F f) {
  const std::int64_t height = images.size(2), width = images.size(3);
  for (std::int64_t i = 0; i < windows.numel(); ++i) {
    const std::int64_t x = i % windows.size(3), y = i / windows.size(3) % windows.size(2);
    const std::int64_t plane = i / windows.size(3) / windows.size(2);
    const AdaptiveWindow rows(y, windows.size(2), height), columns(x, windows.size(3), width);
    const double share = 1.0 / static_cast<double>(rows.positions() * columns.positions());
    for (std::int64_t h = rows.first; h < rows.end; ++h) {
      for (std::int64_t w = columns.first; w < columns.end; ++w) {
        f((plane * height + h) * width + w, i, share);
      }
    }
  }
}

void uneven_forward(const KernelArgs& args) {
  const Tensor input = args.in(0).to(kFloat64).contiguous();
  const Tensor result = zeros(args.out().sizes(), kFloat64);
  const double* from = input.impl()->typed<double>();
  double* to = result.impl()->typed<double>();
  for_uneven(input, result, [&](std::int64_t position, std::int64_t window, double share) {
    to[window] += from[position] * share;
  });
  args.out().copy_(result);
}

void uneven_backward(const KernelArgs& args) {
  const Tensor grad = args.in(0).to(kFloat64).contiguous();
  const Tensor result = zeros(args.out().sizes(), kFloat64);
  const double* from = grad.impl()->typed<double>();
  double* to = result.impl()->typed<double>();
  for_uneven(result, grad, [&](std::int64_t position, std::int64_t window, double share) {
    to[position] += from[window] * share;
  });
  args.out().copy_(result);
}

}  // namespace

void register_pool_reference() {
  add(OpId::max_pool2d_with_indices, {"reference", nullptr, max_forward});
  add(OpId::max_pool2d_backward, {"reference", nullptr, max_backward});
  add(OpId::avg_pool2d, {"reference", nullptr, average_forward});
  add(OpId::avg_pool2d_backward, {"reference", nullptr, average_backward});
  add(OpId::uneven_avg_pool2d, {"reference", nullptr, uneven_forward});
  add(OpId::uneven_avg_pool2d_backward, {"reference", nullptr, uneven_backward});
}

}  // namespace facula::cpu
