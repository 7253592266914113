// Batch normalization and per-channel affine maps.
#include "backends/cpu/kernels/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "backends/cpu/loops_of.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/streaming.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/attrs/batch_norm_apply.h"
#include "ops/attrs/batch_norm_relu.h"
#include "ops/attrs/batch_norm_relu_backward.h"
#include "ops/attrs/batch_norm_stats.h"
#include "ops/attrs/batch_norm_train.h"
#include "ops/attrs/channel_affine_relu.h"
#include "ops/schema/channels.h"

namespace facula::cpu {
namespace {

template <class T>
const auto& loops() {
  return loops_of<T>(batch_norm_kernels());
}

template <class T>
T bound(std::optional<double> cap) {
  return static_cast<T>(cap.value_or(std::numeric_limits<double>::quiet_NaN()));
}

template <class T>
Affine<T> of_channel(const Affine<T>& f, std::int64_t channel) {
  return {f.scale + channel, f.shift + channel, f.cap};
}

/// How the elements of [N, C, ...] lie: `rows` rows of C channels, or N * C planes. Both are cut
/// by size alone: small enough for the second-level cache, where statistics read them twice, and
/// for sums in float32, yet into few parts, because one thread joins their results. A slice is what
/// has one result per channel: some rows, or the same part of the planes of one batch entry.
struct Layout {
  static constexpr std::int64_t kSliceElements = 65536;
  static constexpr std::int64_t kSliceRows = 2048;
  static constexpr std::int64_t kPart = 16384;  ///< elements of a plane

  explicit Layout(const Tensor& dense) {
    const TensorImpl& impl = *dense.impl();
    channels = impl.sizes[1];
    batch = impl.sizes[0];
    plane = channels * batch > 0 ? impl.numel / (channels * batch) : 0;
    by_rows = plane == 1 || facula::is_contiguous(impl, kChannelsLast);
    rows = batch * plane;
    rows_per_slice = std::clamp<std::int64_t>(kSliceElements / std::max<std::int64_t>(1, channels),
                                              1, kSliceRows);
    parts = base::divide_up(plane, kPart);
    slices = by_rows ? base::divide_up(rows, rows_per_slice) : batch * parts;
  }

  /// Calls body(first row, row count) for each slice of rows.
  template <class Body>
  void for_row_slices(Body body) const {
    base::parallel_for(slices, [&](std::int64_t slice) {
      const std::int64_t first = slice * rows_per_slice;
      body(slice, first, std::min(rows_per_slice, rows - first));
    });
  }
  /// Calls body(slice, channel, offset, element count) for every part of every plane.
  template <class Body>
  void for_parts(Body body) const {
    const std::int64_t group =
        std::max<std::int64_t>(1, kSliceElements / std::clamp<std::int64_t>(plane, 1, kPart));
    const std::int64_t count = slices * channels;
    base::parallel_for(base::divide_up(count, group), [&](std::int64_t task) {
      const std::int64_t first = task * group, end = std::min(first + group, count);
      std::int64_t part = first % parts, c = first / parts % channels;
      std::int64_t n = first / parts / channels;
      for (std::int64_t i = first; i < end; ++i) {
        const std::int64_t done = part * kPart;
        body(n * parts + part, c, (n * channels + c) * plane + done, std::min(kPart, plane - done));
        if (++part < parts) continue;
        part = 0;
        if (++c < channels) continue;
        c = 0;
        ++n;
      }
    });
  }

  /// Elements of a channel in a slice.
  std::int64_t elements_of(std::int64_t slice) const {
    return by_rows ? std::min(rows_per_slice, rows - slice * rows_per_slice)
                   : std::min(kPart, plane - slice % parts * kPart);
  }

  std::int64_t channels, batch, plane, rows, rows_per_slice, parts, slices;
  bool by_rows;
};

Tensor dense(const Tensor& input, MemoryFormat format) { return input.detach().contiguous(format); }

template <class T>
T* data(const Tensor& tensor) {
  return tensor.impl()->typed<T>();
}

/// A per-channel input, dense; undefined where absent.
Tensor per_channel(const KernelArgs& args, std::size_t i) {
  return args.has(i) ? args.in(i).detach().contiguous() : Tensor();
}

/// Mean and squared deviation of every channel, slices joined in order by Chan's formula.
template <class T>
void statistics(const Layout& layout, const T* x, double* mean, double* deviation) {
  const Tensor partial = new_tensor({2, layout.slices, layout.channels}, dtype_of<T>, kCPU);
  T* means = data<T>(partial);
  T* deviations = means + layout.slices * layout.channels;
  if (layout.by_rows) {
    layout.for_row_slices([&](std::int64_t slice, std::int64_t first, std::int64_t rows) {
      loops<T>().stats_rows(x + first * layout.channels, rows, layout.channels, layout.channels,
                            means + slice * layout.channels, deviations + slice * layout.channels);
    });
  } else {
    layout.for_parts([&](std::int64_t slice, std::int64_t c, std::int64_t offset, std::int64_t n) {
      const std::int64_t result = slice * layout.channels + c;
      loops<T>().stats_plane(x + offset, n, far_last_level(), means + result, deviations + result);
    });
  }
  std::fill_n(mean, layout.channels, 0.0);
  std::fill_n(deviation, layout.channels, 0.0);
  double count = 0;
  for (std::int64_t slice = 0; slice < layout.slices; ++slice) {
    const auto n = static_cast<double>(layout.elements_of(slice));
    const double share = n / (count + n), weight = count * share;
    const T* own_mean = means + slice * layout.channels;
    const T* own_deviation = deviations + slice * layout.channels;
    for (std::int64_t c = 0; c < layout.channels; ++c) {
      const double difference = static_cast<double>(own_mean[c]) - mean[c];
      mean[c] += difference * share;
      deviation[c] += static_cast<double>(own_deviation[c]) + difference * difference * weight;
    }
    count += n;
  }
}

/// Calls body(first row, row count, place for their results) for pieces of all rows. Results that
/// do not fit the caches go past them, through a buffer. An input may be null.
template <class T, class Body>
void write_rows(const Layout& layout, std::initializer_list<const T*> inputs, T* out, Body body) {
  constexpr std::int64_t kPiece = kStreamBufferBytes / sizeof(T), kBuffer = 4 * kPiece;
  const std::int64_t n = layout.channels, row_bytes = n * static_cast<std::int64_t>(sizeof(T));
  const bool streams = n <= kBuffer && worth_streaming(layout.rows * row_bytes);
  layout.for_row_slices([&](std::int64_t, std::int64_t first, std::int64_t rows) {
    if (!streams) return body(first, rows, out + first * n);
    alignas(64) T buffer[kBuffer];
    const std::int64_t most = std::max<std::int64_t>(1, kPiece / n);
    for (const std::int64_t end = first + rows; first < end; first += most) {
      const std::int64_t count = std::min(most, end - first);
      for (const T* input : inputs) {
        if (input && far_last_level()) ask_ahead(input + first * n, count * row_bytes);
      }
      body(first, count, buffer);
      stream(out + first * n, buffer, count * row_bytes);
    }
    finish_streaming();
  });
}

/// out = x * scale + shift, with `relu` max(... + residual, 0).
template <class T>
void affine(const Layout& layout, const T* x, Affine<T> f, bool relu, const T* residual, T* out) {
  const std::int64_t n = layout.channels;
  auto added = [&](std::int64_t offset) { return residual ? residual + offset : nullptr; };
  if (layout.by_rows) {
    write_rows(layout, {x, residual}, out, [&](std::int64_t first, std::int64_t rows, T* to) {
      relu ? loops<T>().affine_relu_rows(x + first * n, added(first * n), rows, n, f, to)
           : loops<T>().affine_rows(x + first * n, rows, n, f, to);
    });
  } else {
    layout.for_parts([&](std::int64_t, std::int64_t c, std::int64_t offset, std::int64_t count) {
      const Affine<T> own = of_channel(f, c);
      relu ? loops<T>().affine_relu_plane(x + offset, added(offset), count, own, out + offset)
           : loops<T>().affine_plane(x + offset, count, own, out + offset);
    });
  }
}

/// The coefficients of normalization, computed from the statistics as they are stored, so that
/// forward and backward agree on which values are positive.
template <class T>
class Normalization {
 public:
  Normalization(const Tensor& means, const Tensor& inverses, const Tensor& weights,
                const Tensor& biases)
      : coefficients_(new_tensor({2, means.numel()}, dtype_of<T>, kCPU)) {
    const std::int64_t channels = means.numel();
    T* scale = data<T>(coefficients_);
    for (std::int64_t c = 0; c < channels; ++c) {
      const double weight = weights.defined() ? static_cast<double>(data<T>(weights)[c]) : 1;
      const double bias = biases.defined() ? static_cast<double>(data<T>(biases)[c]) : 0;
      const double slope = weight * static_cast<double>(data<T>(inverses)[c]);
      scale[c] = static_cast<T>(slope);
      scale[channels + c] = static_cast<T>(bias - static_cast<double>(data<T>(means)[c]) * slope);
    }
  }
  Affine<T> affine(std::optional<double> cap = {}) const {
    const T* scale = data<T>(coefficients_);
    return {scale, scale + coefficients_.numel() / 2, bound<T>(cap)};
  }

 private:
  Tensor coefficients_;
};

/// The residual of a call in the layout of its result; null without one.
template <class T>
struct Residual {
  Residual(const KernelArgs& args, std::size_t i, const Tensor& x)
      : tensor(args.has(i) ? dense(args.in(i), channel_format(x)) : Tensor()) {}
  const T* values() const { return tensor.defined() ? data<T>(tensor) : nullptr; }

  Tensor tensor;
};

/// Mean, 1/sqrt(variance + eps) and, unless undefined, biased variance of every channel of x, which
/// is dense. The variance cannot be had from 1/sqrt(variance + eps), where eps drowns small ones.
/// Channels of nothing have mean and variance 0, which keep their gradients 0 for eps > 0.
template <class T>
void compute_stats(const Tensor& x, double eps, const Tensor& means, const Tensor& inverses,
                   const Tensor& variances) {
  if (x.numel() == 0) {
    means.zero_();
    inverses.fill_(1 / std::sqrt(eps));
    if (variances.defined()) variances.zero_();
    return;
  }
  const Layout layout(x);
  const Tensor wide = new_tensor({2, layout.channels}, kFloat64, kCPU);
  double* mean = data<double>(wide);
  double* deviation = mean + layout.channels;
  statistics(layout, data<T>(x), mean, deviation);
  for (std::int64_t c = 0; c < layout.channels; ++c) {
    const double variance = deviation[c] / static_cast<double>(layout.rows);
    data<T>(means)[c] = static_cast<T>(mean[c]);
    data<T>(inverses)[c] = static_cast<T>(1 / std::sqrt(variance + eps));
    if (variances.defined()) data<T>(variances)[c] = static_cast<T>(variance);
  }
}

template <class T>
void train(const KernelArgs& args, double eps, bool relu, std::optional<double> cap = {}) {
  const Tensor x = dense(args.in(0), channel_format(args.in(0)));
  const Tensor variances = args.output_count > 3 ? args.out(3) : Tensor();
  compute_stats<T>(x, eps, args.out(1), args.out(2), variances);
  if (x.numel() == 0) return;
  const Normalization<T> normalization(args.out(1), args.out(2), per_channel(args, 1),
                                       per_channel(args, 2));
  const Residual<T> residual(args, 3, x);
  affine(Layout(x), data<T>(x), normalization.affine(cap), relu, residual.values(),
         data<T>(args.out(0)));
}

/// Sums of the gradient g and of g * (x - mean), one of each per slice and channel.
template <class T>
struct GradientSums {
  explicit GradientSums(const Layout& layout)
      : memory(new_tensor({2, layout.slices, layout.channels}, dtype_of<T>, kCPU)),
        sums(data<T>(memory)),
        products(sums + layout.slices * layout.channels) {}

  /// [2, C] in float64: both sums over all slices, in order.
  Tensor joined() const {
    const std::int64_t slices = memory.size(1), channels = memory.size(2);
    Tensor result = new_tensor({2, channels}, kFloat64, kCPU);
    double* total = data<double>(result);
    std::fill_n(total, 2 * channels, 0.0);
    for (std::int64_t slice = 0; slice < slices; ++slice) {
      for (std::int64_t c = 0; c < channels; ++c) {
        total[c] += static_cast<double>(sums[slice * channels + c]);
        total[channels + c] += static_cast<double>(products[slice * channels + c]);
      }
    }
    return result;
  }

  Tensor memory;
  T* sums;
  T* products;
};

/// With `relu` given, the gradient is 0 where relu(x * scale + shift) is.
template <class T>
void sum_gradients(const Layout& layout, const T* g, const T* x, const T* mean,
                   const Affine<T>* relu, const GradientSums<T>& to) {
  const BatchNormLoops<T>& kernels = loops<T>();
  const std::int64_t n = layout.channels;
  if (layout.by_rows) {
    layout.for_row_slices([&](std::int64_t slice, std::int64_t first, std::int64_t rows) {
      const std::int64_t at = first * n;
      T* sums = to.sums + slice * n;
      T* products = to.products + slice * n;
      relu ? kernels.relu_sums_rows(g + at, x + at, rows, n, mean, *relu, sums, products)
           : kernels.sums_rows(g + at, x + at, rows, n, mean, sums, products);
    });
  } else {
    layout.for_parts([&](std::int64_t slice, std::int64_t c, std::int64_t at, std::int64_t count) {
      T* sum = to.sums + slice * n + c;
      T* product = to.products + slice * n + c;
      relu ? kernels.relu_sums_plane(g + at, x + at, count, mean[c], of_channel(*relu, c), sum,
                                     product)
           : kernels.sums_plane(g + at, x + at, count, mean[c], sum, product);
    });
  }
}

/// dx = a * g + b * x + c per channel.
template <class T>
void combine_gradients(const Layout& layout, const T* g, const T* x, const T* a, const T* b,
                       const T* c, const Affine<T>* relu, T* out) {
  const BatchNormLoops<T>& kernels = loops<T>();
  const std::int64_t n = layout.channels;
  if (layout.by_rows) {
    write_rows(layout, {g, x}, out, [&](std::int64_t first, std::int64_t rows, T* to) {
      const std::int64_t at = first * n;
      relu ? kernels.relu_combine_rows(g + at, x + at, rows, n, a, b, c, *relu, to)
           : kernels.combine_rows(g + at, x + at, rows, n, a, b, c, to);
    });
  } else {
    layout.for_parts([&](std::int64_t, std::int64_t k, std::int64_t at, std::int64_t count) {
      relu ? kernels.relu_combine_plane(g + at, x + at, count, a[k], b[k], c[k],
                                        of_channel(*relu, k), out + at)
           : kernels.combine_plane(g + at, x + at, count, a[k], b[k], c[k], out + at);
    });
  }
}

/// Gradients of input, weight and bias to outputs 0, 1 and 2.
template <class T>
void backward(const KernelArgs& args, const Tensor& x, const Tensor& weights, const Tensor& means,
              const Tensor& inverses, const Affine<T>* relu) {
  const Tensor g = dense(args.in(0), channel_format(args.in(1)));
  const Layout layout(x);
  const std::int64_t channels = layout.channels;
  const T* mean = data<T>(means);
  const T* invstd = data<T>(inverses);
  const GradientSums<T> parts(layout);
  sum_gradients(layout, data<T>(g), data<T>(x), mean, relu, parts);
  const Tensor coefficients = new_tensor({3, channels}, dtype_of<T>, kCPU);
  T* a = data<T>(coefficients);
  T* b = a + channels;
  T* c = b + channels;
  const auto count = static_cast<double>(layout.rows);
  const Tensor joined = parts.joined();
  const double* totals = data<double>(joined);
  for (std::int64_t k = 0; k < channels; ++k) {
    const double sum = totals[k], product = totals[channels + k];
    const double inverse = invstd[k];
    const double scale =
        inverse * (weights.defined() ? static_cast<double>(data<T>(weights)[k]) : 1);
    data<T>(args.out(1))[k] = static_cast<T>(product * inverse);
    data<T>(args.out(2))[k] = static_cast<T>(sum);
    // dx = scale * (g - mean(g) - (x - mean) * invstd^2 * mean(g * (x - mean)))
    const double slope = -scale * inverse * inverse * product / count;
    a[k] = static_cast<T>(scale);
    b[k] = static_cast<T>(slope);
    c[k] = static_cast<T>(-scale * sum / count - slope * static_cast<double>(mean[k]));
  }
  combine_gradients(layout, data<T>(g), data<T>(x), a, b, c, relu, data<T>(args.out(0)));
}

/// (grad, input, weight, mean, invstd)
template <class T>
void run_backward(const KernelArgs& args) {
  const Tensor x = dense(args.in(1), channel_format(args.in(1)));
  backward<T>(args, x, per_channel(args, 2), per_channel(args, 3), per_channel(args, 4), nullptr);
}

/// (grad, input, weight, bias, mean, invstd)
template <class T>
void run_relu_backward(const KernelArgs& args) {
  const Tensor x = dense(args.in(1), channel_format(args.in(1)));
  const Tensor weights = per_channel(args, 2);
  const Tensor means = per_channel(args, 4), inverses = per_channel(args, 5);
  const Normalization<T> normalization(means, inverses, weights, per_channel(args, 3));
  const Affine<T> relu =
      normalization.affine(args.attrs<ops::batch_norm_relu_backward_attrs>().cap);
  backward(args, x, weights, means, inverses, &relu);
}

template <class T>
void run_affine(const KernelArgs& args, bool relu, std::optional<double> cap = {}) {
  const Tensor x = dense(args.in(0), channel_format(args.in(0)));
  if (x.numel() == 0) return;
  const Tensor scale = per_channel(args, 1), shift = per_channel(args, 2);
  const Residual<T> residual(args, 3, x);
  affine(Layout(x), data<T>(x), {data<T>(scale), data<T>(shift), bound<T>(cap)}, relu,
         residual.values(), data<T>(args.out()));
}

template <class T>
struct Run {
  static void batch_norm_train(const KernelArgs& args) {
    train<T>(args, args.attrs<ops::batch_norm_train_attrs>().eps, false);
  }
  static void batch_norm_relu(const KernelArgs& args) {
    const auto& attrs = args.attrs<ops::batch_norm_relu_attrs>();
    train<T>(args, attrs.eps, true, attrs.cap);
  }
  static void batch_norm_stats(const KernelArgs& args) {
    compute_stats<T>(dense(args.in(0), channel_format(args.in(0))),
                     args.attrs<ops::batch_norm_stats_attrs>().eps, args.out(0), args.out(1),
                     args.out(2));
  }
  static void batch_norm_apply(const KernelArgs& args) {
    const Tensor x = dense(args.in(0), channel_format(args.in(0)));
    if (x.numel() == 0) return;
    const Normalization<T> normalization(per_channel(args, 1), per_channel(args, 2),
                                         per_channel(args, 3), per_channel(args, 4));
    const Residual<T> residual(args, 5, x);
    const auto& attrs = args.attrs<ops::batch_norm_apply_attrs>();
    affine(Layout(x), data<T>(x), normalization.affine(attrs.cap), attrs.relu, residual.values(),
           data<T>(args.out()));
  }
  static void batch_norm_backward(const KernelArgs& args) { run_backward<T>(args); }
  static void batch_norm_relu_backward(const KernelArgs& args) { run_relu_backward<T>(args); }
  static void channel_affine(const KernelArgs& args) { run_affine<T>(args, false); }
  static void channel_affine_relu(const KernelArgs& args) {
    run_affine<T>(args, true, args.attrs<ops::channel_affine_relu_attrs>().cap);
  }
};

}  // namespace

#define FACULA_ADD(name)                                                       \
  add(OpId::name, {"slices", nullptr, [](const KernelArgs& args) {             \
                     args.out().dtype() == kFloat32 ? Run<float>::name(args)   \
                                                    : Run<double>::name(args); \
                   }})

void register_batch_norm() {
  FACULA_ADD(batch_norm_train);
  FACULA_ADD(batch_norm_relu);
  FACULA_ADD(batch_norm_stats);
  FACULA_ADD(batch_norm_apply);
  FACULA_ADD(batch_norm_backward);
  FACULA_ADD(batch_norm_relu_backward);
  FACULA_ADD(channel_affine);
  FACULA_ADD(channel_affine_relu);
}

#undef FACULA_ADD

}  // namespace facula::cpu
