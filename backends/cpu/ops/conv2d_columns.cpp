// float64 convolutions of any stride and grouping as matrix products with the columns of the input:
// one row per weight of an output channel, with what that weight meets in the pixels of the result.
// float32 has kernels that do not write the columns down.
#include <algorithm>
#include <cstring>

#include "backends/cpu/convolution.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"

namespace facula::cpu {
namespace {

/// Elements of columns that stay in the second-level cache until the product has read them.
constexpr std::int64_t kColumnElements = 64 << 10;
/// Partial sums of a weight gradient.
constexpr std::int64_t kMostParts = 8;

/// The convolution of one group, in bands of lines of the result.
struct Group {
  explicit Group(const ConvShape& shape)
      : s(shape),
        ins(s.c / s.groups),
        outs(s.oc / s.groups),
        depth(ins * s.kh * s.kw),
        lines(std::clamp<std::int64_t>(kColumnElements / (depth * s.ow), 1, s.oh)),
        bands(base::divide_up(s.oh, lines)) {}

  std::int64_t lines_of(std::int64_t band) const { return std::min(lines, s.oh - band * lines); }
  std::int64_t pixels_of(std::int64_t band) const { return lines_of(band) * s.ow; }
  /// Where the band begins in a plane of the result.
  std::int64_t begin_of(std::int64_t band) const { return band * lines * s.ow; }

  const ConvShape& s;
  std::int64_t ins, outs;
  std::int64_t depth;  ///< rows of the columns
  std::int64_t lines, bands;
};

/// Calls f(place in the columns, place in the planes of the group, n) for the runs of n elements of
/// the columns that are elements of the planes, stride_w apart; all others are padding.
template <class F>
void for_each_run(const Group& g, std::int64_t band, F f) {
  const ConvShape& s = g.s;
  std::int64_t place = 0;
  for (std::int64_t weight = 0; weight < g.depth; ++weight) {
    const std::int64_t channel = weight / (s.kh * s.kw);
    const std::int64_t below = weight / s.kw % s.kh * s.dilation_h - s.pad_h;
    const std::int64_t right = weight % s.kw * s.dilation_w - s.pad_w;
    const std::int64_t first = right >= 0 ? 0 : base::divide_up(-right, s.stride_w);
    const std::int64_t end = std::min(s.ow, base::divide_up(s.w - right, s.stride_w));
    for (std::int64_t i = 0; i < g.lines_of(band); ++i, place += s.ow) {
      const std::int64_t row = (band * g.lines + i) * s.stride_h + below;
      if (row < 0 || row >= s.h || first >= end) continue;
      f(place + first, (channel * s.h + row) * s.w + right + first * s.stride_w, end - first);
    }
  }
}

void fill_columns(const Group& g, std::int64_t band, const double* planes, double* columns) {
  std::memset(columns, 0, static_cast<std::size_t>(g.depth * g.pixels_of(band)) * sizeof(double));
  const std::int64_t stride = g.s.stride_w;
  for_each_run(g, band, [=](std::int64_t to, std::int64_t from, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) columns[to + i] = planes[from + i * stride];
  });
}

void add_columns(const Group& g, std::int64_t band, const double* columns, double* planes) {
  const std::int64_t stride = g.s.stride_w;
  for_each_run(g, band, [=](std::int64_t from, std::int64_t to, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) planes[to + i * stride] += columns[from + i];
  });
}

/// The weights of all groups as left factors; transposed, for the gradient of the input.
class PackedWeights {
 public:
  PackedWeights(const Group& g, const double* weights, bool transposed)
      : size_(transposed ? loops().packed_size(g.depth, g.outs)
                         : loops().packed_size(g.outs, g.depth)),
        data_(size_ * g.s.groups) {
    for (std::int64_t i = 0; i < g.s.groups; ++i) {
      const double* own = weights + i * g.outs * g.depth;
      if (transposed) {
        loops().pack(own, 1, g.depth, g.depth, g.outs, data_.data() + i * size_);
      } else {
        loops().pack(own, g.depth, 1, g.outs, g.depth, data_.data() + i * size_);
      }
    }
  }
  const double* of(std::int64_t group) const { return data_.data() + group * size_; }

 private:
  static const GemmLoops<double>& loops() { return gemm_loops<double>(); }

  std::int64_t size_;
  Scratch<double> data_;
};

void forward(const Group& g, const double* images, const double* weights, const double* bias,
             double* out) {
  const ConvShape& s = g.s;
  const PackedWeights packed(g, weights, false);
  base::parallel_for(s.n * s.groups * g.bands, [&](std::int64_t slice) {
    const std::int64_t band = slice % g.bands, part = slice / g.bands, group = part % s.groups;
    const std::int64_t pixels = g.pixels_of(band);
    const Scratch<double> columns(g.depth * pixels);
    fill_columns(g, band, images + part * g.ins * s.h * s.w, columns.data());
    gemm_loops<double>().product({.m = g.outs,
                                  .n = pixels,
                                  .k = g.depth,
                                  .packed_a = packed.of(group),
                                  .b = {columns.data(), pixels, nullptr},
                                  .c = out + part * g.outs * s.oh * s.ow + g.begin_of(band),
                                  .c_stride = s.oh * s.ow,
                                  .row_bias = bias ? bias + group * g.outs : nullptr,
                                  .column_bias = nullptr,
                                  .accumulate = false});
  });
}

void backward_input(const Group& g, const double* gradients, const double* weights, double* out) {
  const ConvShape& s = g.s;
  const PackedWeights packed(g, weights, true);
  base::parallel_for(s.n * s.groups, [&](std::int64_t part) {
    const Scratch<double> columns(g.depth * g.lines * s.ow);
    double* planes = out + part * g.ins * s.h * s.w;
    std::memset(planes, 0, static_cast<std::size_t>(g.ins * s.h * s.w) * sizeof(double));
    for (std::int64_t band = 0; band < g.bands; ++band) {
      const double* gradient = gradients + part * g.outs * s.oh * s.ow + g.begin_of(band);
      gemm_loops<double>().product({.m = g.depth,
                                    .n = g.pixels_of(band),
                                    .k = g.outs,
                                    .packed_a = packed.of(part % s.groups),
                                    .b = {gradient, s.oh * s.ow, nullptr},
                                    .c = columns.data(),
                                    .c_stride = g.pixels_of(band),
                                    .row_bias = nullptr,
                                    .column_bias = nullptr,
                                    .accumulate = false});
      add_columns(g, band, columns.data(), planes);
    }
  });
}

void backward_weight(const Group& g, const double* gradients, const double* images, double* out) {
  const ConvShape& s = g.s;
  const std::int64_t numel = s.oc * g.depth, together = base::divide_up(s.n, kMostParts);
  const std::int64_t parts = base::divide_up(s.n, together);
  const Scratch<double> sums(parts * numel);
  base::parallel_for(parts * s.groups, [&](std::int64_t slice) {
    const std::int64_t group = slice % s.groups, first = slice / s.groups * together;
    const Scratch<double> columns(g.depth * g.lines * s.ow);
    double* sum = sums.data() + slice * g.outs * g.depth;
    for (std::int64_t i = 0; i < std::min(together, s.n - first) * g.bands; ++i) {
      const std::int64_t band = i % g.bands, part = (first + i / g.bands) * s.groups + group;
      const double* gradient = gradients + part * g.outs * s.oh * s.ow + g.begin_of(band);
      fill_columns(g, band, images + part * g.ins * s.h * s.w, columns.data());
      gemm_loops<double>().dots({.m = g.outs,
                                 .n = g.depth,
                                 .k = g.pixels_of(band),
                                 .a = {gradient, s.oh * s.ow, nullptr},
                                 .b = {columns.data(), g.pixels_of(band), nullptr},
                                 .batch = 1,
                                 .a_step = 0,
                                 .b_step = 0,
                                 .c = sum,
                                 .c_stride = g.depth,
                                 .column_bias = nullptr,
                                 .accumulate = i > 0});
    }
  });
  sum_parts(sums.data(), parts, numel);
  std::memcpy(out, sums.data(), static_cast<std::size_t>(numel) * sizeof(double));
}

Refusal refuse(const KernelArgs& args) {
  return args.in(0).dtype() == kFloat64 ? nullptr : "only float64";
}

void run(const KernelArgs& args) {
  const ConvShape s = conv_shape_of(args);
  if (run_if_empty(args, s)) return;
  const Tensor a = args.in(0).contiguous(), b = args.in(1).contiguous();
  const Tensor bias = args.has(2) ? args.in(2).contiguous() : Tensor();
  const Tensor& result = args.out();
  const Tensor out = result.is_contiguous() ? result : new_tensor(result.sizes(), kFloat64, kCPU);
  const auto data = [](const Tensor& t) {
    return t.defined() ? t.impl()->typed<double>() : nullptr;
  };
  const Group g(s);
  switch (conv_kind(args)) {
    case ConvKind::forward: forward(g, data(a), data(b), data(bias), data(out)); break;
    case ConvKind::backward_input: backward_input(g, data(a), data(b), data(out)); break;
    case ConvKind::backward_weight: backward_weight(g, data(a), data(b), data(out)); break;
  }
  if (!result.is_contiguous()) copy_elements(out, result);
}

}  // namespace

void register_conv2d_columns() {
  for (OpId op : {OpId::conv2d, OpId::conv2d_backward_input, OpId::conv2d_backward_weight}) {
    add(op, {"columns", refuse, run});
  }
}

}  // namespace facula::cpu
