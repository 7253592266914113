// Batch normalization and per-channel affine maps.
#include "backends/cpu/kernels/batch_norm.h"

#include <cmath>

#include "backends/cpu/registration.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/attrs/batch_norm_train.h"
#include "ops/schema/channels.h"

namespace facula::cpu {
namespace {

template <class T>
const BatchNormLoops<T>& loops() {
  if constexpr (std::is_same_v<T, float>) {
    return batch_norm_kernels().f32;
  } else {
    return batch_norm_kernels().f64;
  }
}

/// How the elements of [N, C, ...] lie: `rows` rows of C channels, or N * C planes. Both are cut
/// into slices by size alone.
struct Layout {
  static constexpr std::int64_t kSliceElements = 16384;

  explicit Layout(const Tensor& dense) {
    const TensorImpl& impl = *dense.impl();
    channels = impl.sizes[1];
    batch = impl.sizes[0];
    plane = channels * batch > 0 ? impl.numel / (channels * batch) : 0;
    by_rows = plane == 1 || facula::is_contiguous(impl, kChannelsLast);
    rows = batch * plane;
    rows_per_slice =
        std::max<std::int64_t>(1, kSliceElements / std::max<std::int64_t>(1, channels));
    slices = by_rows ? (rows + rows_per_slice - 1) / rows_per_slice : batch;
  }

  /// Calls body(first row, row count) for each slice of rows.
  template <class Body>
  void for_row_slices(Body body) const {
    base::parallel_for(slices, [&](std::int64_t slice) {
      const std::int64_t first = slice * rows_per_slice;
      body(slice, first, std::min(rows_per_slice, rows - first));
    });
  }
  /// Calls body(channel, offset of the plane) for every plane.
  template <class Body>
  void for_planes(Body body) const {
    const std::int64_t group =
        std::max<std::int64_t>(1, kSliceElements / std::max<std::int64_t>(1, plane));
    const std::int64_t planes = batch * channels;
    base::parallel_for((planes + group - 1) / group, [&](std::int64_t slice) {
      const std::int64_t end = std::min((slice + 1) * group, planes);
      for (std::int64_t p = slice * group; p < end; ++p) body(p, p % channels, p * plane);
    });
  }

  std::int64_t channels, batch, plane, rows, rows_per_slice, slices;
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
      loops<T>().stats_rows(x + first * layout.channels, rows, layout.channels,
                            means + slice * layout.channels, deviations + slice * layout.channels);
    });
  } else {
    layout.for_planes([&](std::int64_t p, std::int64_t, std::int64_t offset) {
      loops<T>().stats_plane(x + offset, layout.plane, means + p, deviations + p);
    });
  }
  for (std::int64_t c = 0; c < layout.channels; ++c) {
    double count = 0, m = 0, d = 0;
    for (std::int64_t slice = 0; slice < layout.slices; ++slice) {
      const auto n =
          static_cast<double>(layout.by_rows ? std::min(layout.rows_per_slice,
                                                        layout.rows - slice * layout.rows_per_slice)
                                             : layout.plane);
      const double difference = static_cast<double>(means[slice * layout.channels + c]) - m;
      const double total = count + n;
      m += difference * n / total;
      d += static_cast<double>(deviations[slice * layout.channels + c]) +
           difference * difference * count * n / total;
      count = total;
    }
    mean[c] = m;
    deviation[c] = d;
  }
}

template <class T>
void affine(const Layout& layout, const T* x, const T* scale, const T* shift, T* out) {
  if (layout.by_rows) {
    layout.for_row_slices([&](std::int64_t, std::int64_t first, std::int64_t rows) {
      const std::int64_t offset = first * layout.channels;
      loops<T>().affine_rows(x + offset, rows, layout.channels, scale, shift, out + offset);
    });
  } else {
    layout.for_planes([&](std::int64_t, std::int64_t c, std::int64_t offset) {
      loops<T>().affine_plane(x + offset, layout.plane, scale[c], shift[c], out + offset);
    });
  }
}

template <class T>
void train(const KernelArgs& args) {
  const Tensor x = dense(args.in(0), channel_format(args.in(0)));
  if (x.numel() == 0) return;
  const Layout layout(x);
  const std::int64_t channels = layout.channels;
  const double eps = args.attrs<ops::batch_norm_train_attrs>().eps;
  const Tensor wide = new_tensor({2, channels}, kFloat64, kCPU);
  const Tensor coefficients = new_tensor({2, channels}, dtype_of<T>, kCPU);
  double* mean = data<double>(wide);
  double* deviation = mean + channels;
  T* scale = data<T>(coefficients);
  T* shift = scale + channels;
  const Tensor weights = per_channel(args, 1), biases = per_channel(args, 2);
  statistics(layout, data<T>(x), mean, deviation);
  for (std::int64_t c = 0; c < channels; ++c) {
    const double invstd = 1 / std::sqrt(deviation[c] / static_cast<double>(layout.rows) + eps);
    const double weight = weights.defined() ? static_cast<double>(data<T>(weights)[c]) : 1;
    const double bias = biases.defined() ? static_cast<double>(data<T>(biases)[c]) : 0;
    data<T>(args.out(1))[c] = static_cast<T>(mean[c]);
    data<T>(args.out(2))[c] = static_cast<T>(invstd);
    scale[c] = static_cast<T>(weight * invstd);
    shift[c] = static_cast<T>(bias - mean[c] * weight * invstd);
  }
  affine(layout, data<T>(x), scale, shift, data<T>(args.out(0)));
}

template <class T>
void backward(const KernelArgs& args) {
  const MemoryFormat format = channel_format(args.in(1));
  const Tensor x = dense(args.in(1), format), g = dense(args.in(0), format);
  const Layout layout(x);
  const std::int64_t channels = layout.channels;
  const Tensor weights = per_channel(args, 2), means = per_channel(args, 3);
  const Tensor inverses = per_channel(args, 4);
  const T* mean = data<T>(means);
  const T* invstd = data<T>(inverses);
  const Tensor partial =
      new_tensor({2, std::max<std::int64_t>(layout.slices, 1), channels}, dtype_of<T>, kCPU);
  T* sums = data<T>(partial);
  T* products = sums + layout.slices * channels;
  if (layout.by_rows) {
    layout.for_row_slices([&](std::int64_t slice, std::int64_t first, std::int64_t rows) {
      const std::int64_t offset = first * channels;
      loops<T>().sums_rows(data<T>(g) + offset, data<T>(x) + offset, rows, channels, mean,
                           sums + slice * channels, products + slice * channels);
    });
  } else {
    layout.for_planes([&](std::int64_t p, std::int64_t c, std::int64_t offset) {
      loops<T>().sums_plane(data<T>(g) + offset, data<T>(x) + offset, layout.plane, mean[c],
                            sums + p, products + p);
    });
  }
  const Tensor coefficients = new_tensor({3, channels}, dtype_of<T>, kCPU);
  T* a = data<T>(coefficients);
  T* b = a + channels;
  T* c = b + channels;
  const auto count = static_cast<double>(layout.rows);
  for (std::int64_t k = 0; k < channels; ++k) {
    double sum = 0, product = 0;
    for (std::int64_t slice = 0; slice < layout.slices; ++slice) {
      sum += static_cast<double>(sums[slice * channels + k]);
      product += static_cast<double>(products[slice * channels + k]);
    }
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
  T* out = data<T>(args.out(0));
  if (layout.by_rows) {
    layout.for_row_slices([&](std::int64_t, std::int64_t first, std::int64_t rows) {
      const std::int64_t offset = first * channels;
      loops<T>().combine_rows(data<T>(g) + offset, data<T>(x) + offset, rows, channels, a, b, c,
                              out + offset);
    });
  } else {
    layout.for_planes([&](std::int64_t, std::int64_t k, std::int64_t offset) {
      loops<T>().combine_plane(data<T>(g) + offset, data<T>(x) + offset, layout.plane, a[k], b[k],
                               c[k], out + offset);
    });
  }
}

template <class T>
void run_affine(const KernelArgs& args) {
  const Tensor x = dense(args.in(0), channel_format(args.in(0)));
  if (x.numel() == 0) return;
  const Tensor scale = args.in(1).detach().contiguous(), shift = args.in(2).detach().contiguous();
  affine(Layout(x), data<T>(x), data<T>(scale), data<T>(shift), data<T>(args.out()));
}

}  // namespace

void register_batch_norm() {
  add(OpId::batch_norm_train, {"slices", nullptr, [](const KernelArgs& args) {
                                 args.in(0).dtype() == kFloat32 ? train<float>(args)
                                                                : train<double>(args);
                               }});
  add(OpId::batch_norm_backward, {"slices", nullptr, [](const KernelArgs& args) {
                                    args.in(1).dtype() == kFloat32 ? backward<float>(args)
                                                                   : backward<double>(args);
                                  }});
  add(OpId::channel_affine, {"slices", nullptr, [](const KernelArgs& args) {
                               args.in(0).dtype() == kFloat32 ? run_affine<float>(args)
                                                              : run_affine<double>(args);
                             }});
}

}  // namespace facula::cpu
