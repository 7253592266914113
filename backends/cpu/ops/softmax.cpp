// Softmax, log-softmax and cross-entropy, forward and backward.
#include "backends/cpu/kernels/softmax.h"

#include <vector>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/loops_of.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/streaming.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/attrs/cross_entropy_loss.h"
#include "ops/attrs/cross_entropy_loss_backward.h"
#include "ops/attrs/log_softmax.h"
#include "ops/attrs/log_softmax_backward.h"
#include "ops/attrs/softmax.h"
#include "ops/attrs/softmax_backward.h"
#include "ops/schema/cross_entropy.h"

#include <facula/ops.h>

namespace facula::cpu {
namespace {

template <class T>
const auto& loops() {
  return loops_of<T>(softmax_kernels());
}

/// What a pass reads and writes; `output` is null where it goes forward.
template <class T>
struct Operands {
  const T *in, *output;
  T* out;

  Operands at(std::int64_t offset) const {
    return {in + offset, output ? output + offset : nullptr, out + offset};
  }
};

/// Rows of n elements that one slice takes.
std::int64_t rows_per_slice(std::int64_t n) {
  constexpr std::int64_t kSliceElements = 8192;
  return std::max<std::int64_t>(1, kSliceElements / std::max<std::int64_t>(1, n));
}

/// Calls body(first row, last row) for slices of `group` rows.
template <class Body>
void for_rows(std::int64_t rows, std::int64_t group, Body body) {
  base::parallel_for(base::divide_up(rows, group), [&](std::int64_t slice) {
    body(slice * group, std::min((slice + 1) * group, rows));
  });
}

// --- Softmax -------------------------------------------------------------------------------------

/// True if the results are better written past the caches and the loops for that can do it: three
/// rows at a time should stay in a core's cache.
template <class T>
bool streams(std::int64_t rows, std::int64_t n) {
  constexpr std::int64_t kLongest = 1 << 16;
  return n >= kSoftmaxLongRow && n <= kLongest &&
         worth_streaming(rows * n * static_cast<std::int64_t>(sizeof(T)));
}

struct Nothing {
  void operator()(std::int64_t, std::int64_t) const {}
};

/// Calls after(first row, last row) for what a slice has written.
template <class T, class After = Nothing>
void run_rows(const SoftmaxPass<T>& pass, const Operands<T>& all, std::int64_t rows, std::int64_t n,
              bool stream, After after = {}) {
  constexpr std::int64_t kStreamElements = 131072;
  // Rows of input and output often begin at the same place within a page. The scratch row must not:
  // processors would take loads of the one for loads of what was just stored in the other.
  constexpr std::int64_t kSkew = 272;
  const std::int64_t slice = rows_per_slice(n);
  const std::int64_t slices = stream ? std::max<std::int64_t>(1, kStreamElements / slice / n) : 1;
  for_rows(rows, slice * slices, [&](std::int64_t first, std::int64_t last) {
    const auto [in, output, out] = all.at(first * n);
    if (stream) {
      const Scratch<T> scratch(kSkew + n);
      pass.stream_rows(in, output, out, last - first, n, scratch.data() + kSkew);
      finish_streaming();
    } else {
      pass.rows(in, output, out, last - first, n);
    }
    after(first, last);
  });
}

/// `self` as it lies, if that is how `out` lies, or a copy that does.
Tensor laid_out_as(const Tensor& out, const Tensor& self) {
  if (self.strides() == out.strides()) return self.detach();
  const Tensor copy = new_strided(out.sizes(), out.strides(), out.dtype(), kCPU);
  copy.copy_(self.detach());
  return copy;
}

/// Blocks of n lines of `after` elements, of which those in one place make a column.
struct Columns {
  std::int64_t blocks, n, after;
};

constexpr std::int64_t kTaskElements = 16384;
std::int64_t tasks_together(std::int64_t elements) {
  return std::max<std::int64_t>(1, kTaskElements / elements);
}

template <class T>
void run_columns(const SoftmaxPass<T>& pass, const Operands<T>& all, const Columns& of) {
  constexpr std::int64_t kWidth = kSoftmaxColumns<T>;
  const std::int64_t blocks = of.blocks, n = of.n, after = of.after;
  const bool stream = worth_streaming(blocks * n * after * static_cast<std::int64_t>(sizeof(T)));
  constexpr std::int64_t kTogether = 32768;
  const std::int64_t strip = 2 * n * kWidth;
  const std::int64_t strips = std::clamp<std::int64_t>(kTogether / strip, 2, kSoftmaxStrips);
  // The last part of a line is the longest: none may be narrower than a strip.
  const std::int64_t width =
      std::min(std::max(kTaskElements / n / kWidth, strips) * kWidth, after / kWidth * kWidth);
  const std::int64_t parts = after / width;
  for_rows(blocks * parts, tasks_together(n * width), [&](std::int64_t first, std::int64_t last) {
    const Scratch<T> scratch(strips * strip);
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t part = i % parts, from = part * width;
      const auto [in, output, out] = all.at(i / parts * n * after + from);
      const std::int64_t own_width = part + 1 < parts ? width : after - from;
      pass.columns(in, output, out, {n, after, own_width, static_cast<int>(strips), stream},
                   scratch.data());
    }
    if (stream) finish_streaming();
  });
}

/// Rows that are faster as columns: the ends of vectors take their time. Gradients have no powers
/// that would fill the vectors better there.
template <class T>
bool is_short(std::int64_t n, bool backward) {
  const std::int64_t forward = n % 8 == 0 ? 64 : 128;
  return n < (backward ? kSoftmaxColumns<T> : forward);
}

/// Calls body(place in the block, place side by side) for the elements of `count` blocks.
template <class Body>
void for_each_narrow(std::int64_t count, std::int64_t width, const Columns& of, Body body) {
  for (std::int64_t b = 0; b < count; ++b) {
    for (std::int64_t k = 0; k < of.n; ++k) {
      const std::int64_t line = (b * of.n + k) * of.after, place = k * width + b * of.after;
      for (std::int64_t c = 0; c < of.after; ++c) body(line + c, place + c);
    }
  }
}

/// Of short lines, and of short rows, those of several blocks are brought side by side.
template <class T>
void run_narrow_columns(const SoftmaxPass<T>& pass, const Operands<T>& all, const Columns& of) {
  constexpr std::int64_t kWidth = kSoftmaxColumns<T>;
  const std::int64_t blocks = of.blocks, n = of.n, after = of.after;
  const std::int64_t beside = kWidth / after, size = n * kWidth;
  const std::int64_t group = beside * tasks_together(size);
  const auto bring = [&](const T* from, std::int64_t count, T* to) {
    if (after == 1) return gemm_loops<T>().transpose(from, n, count, n, to, kWidth);
    for_each_narrow(count, kWidth, of,
                    [&](std::int64_t line, std::int64_t place) { to[place] = from[line]; });
  };
  const auto take_back = [&](const T* from, std::int64_t count, T* to) {
    if (after == 1) return gemm_loops<T>().transpose(from, kWidth, n, count, to, n);
    for_each_narrow(count, kWidth, of,
                    [&](std::int64_t line, std::int64_t place) { to[line] = from[place]; });
  };
  for_rows(blocks, group, [&](std::int64_t first, std::int64_t last) {
    const Scratch<T> scratch(5 * size);
    T *in = scratch.data(), *output = in + size, *out = output + size;
    std::fill_n(in, 2 * size, T(0));
    for (; first < last; first += beside) {
      const std::int64_t count = std::min(beside, last - first);
      const Operands<T> own = all.at(first * n * after);
      bring(own.in, count, in);
      if (own.output) bring(own.output, count, output);
      pass.columns(in, output, out, {n, kWidth, kWidth, 1, false}, out + size);
      take_back(out, count, own.out);
    }
  });
}

/// Through copies in which columns are rows.
template <class T>
void run_long_columns(const SoftmaxPass<T>& pass, const Tensor& in, const Tensor& output,
                      const Tensor& out, const Columns& of) {
  const auto as_rows = [&](const Tensor& tensor) {
    return alias(*tensor.impl(), {of.blocks, of.after, of.n}, {of.n * of.after, 1, of.after},
                 tensor.storage_offset());
  };
  const auto data_of = [](const Tensor& tensor) { return tensor.impl()->typed<T>(); };
  const Tensor in_rows = as_rows(in).contiguous();
  const Tensor output_rows = output.defined() ? as_rows(output).contiguous() : Tensor();
  const Tensor result = new_tensor(in_rows.sizes(), in_rows.dtype(), kCPU);
  const std::int64_t rows = of.blocks * of.after;
  run_rows<T>(
      pass, {data_of(in_rows), output.defined() ? data_of(output_rows) : nullptr, data_of(result)},
      rows, of.n, streams<T>(rows, of.n));
  as_rows(out).copy_(result);
}

template <class T>
void run_pass(const SoftmaxPass<T>& pass, const KernelArgs& args, int dim) {
  const Tensor& out = args.out();
  if (out.numel() == 0) return;
  const Tensor in = laid_out_as(out, args.in(0));
  const Tensor output = args.call.count == 1 ? Tensor() : laid_out_as(out, args.in(1));
  const Operands<T> all = {in.impl()->typed<T>(),
                           output.defined() ? output.impl()->typed<T>() : nullptr,
                           out.impl()->typed<T>()};
  const std::int64_t n = out.dim() == 0 ? 1 : out.sizes()[dim];
  // Neighbours in this dimension are so many elements apart.
  const std::int64_t after = n == 1 ? 1 : out.strides()[dim];
  const Columns columns = {out.numel() / n / after, n, after};
  // Packed, a strip of longer ones would take more room than a few megabytes.
  constexpr std::int64_t kLongestColumn = 1 << 15;
  if (after > 1 && n > kLongestColumn) return run_long_columns(pass, in, output, out, columns);
  if (after >= kSoftmaxColumns<T>) return run_columns(pass, all, columns);
  if (after > 1 || is_short<T>(n, output.defined())) return run_narrow_columns(pass, all, columns);
  run_rows(pass, all, columns.blocks, n, streams<T>(columns.blocks, n));
}

template <class Attributes, auto kOfFloat, auto kOfDouble>
void run(const KernelArgs& args) {
  const int dim = wrap_dim(args.attrs<Attributes>().dim, args.out().dim(), args.call.op.name);
  args.out().dtype() == kFloat32 ? run_pass(loops<float>().*kOfFloat, args, dim)
                                 : run_pass(loops<double>().*kOfDouble, args, dim);
}

using OfFloat = SoftmaxLoops<float>;
using OfDouble = SoftmaxLoops<double>;
constexpr auto softmax = run<ops::softmax_attrs, &OfFloat::softmax, &OfDouble::softmax>;
constexpr auto log_softmax =
    run<ops::log_softmax_attrs, &OfFloat::log_softmax, &OfDouble::log_softmax>;
constexpr auto softmax_backward =
    run<ops::softmax_backward_attrs, &OfFloat::softmax_backward, &OfDouble::softmax_backward>;
constexpr auto log_softmax_backward =
    run<ops::log_softmax_backward_attrs, &OfFloat::log_softmax_backward,
        &OfDouble::log_softmax_backward>;

// --- Cross-entropy -------------------------------------------------------------------------------

/// The labels and weights of a problem, checked and in a form that rows can use.
template <class T>
class Targets {
 public:
  Targets(const Tensor& target, const Tensor& weight, std::int64_t classes, std::int64_t ignored,
          double smoothing)
      : labels_(target.contiguous()),
        weights_(weight.defined() ? weight.contiguous() : weight),
        ignored_(ignored),
        smoothing_(static_cast<T>(smoothing)) {
    weight_sum_ = static_cast<T>(classes);
    if (weights_.defined()) {
      weight_sum_ = 0;
      for (std::int64_t c = 0; c < classes; ++c) weight_sum_ += weights_.impl()->typed<T>()[c];
    }
    for (std::int64_t i = 0; i < labels_.numel(); ++i) {
      const std::int64_t label = label_at(i);
      if (label == ignored) continue;
      check_label(label, i, classes, "cross_entropy");
      total_ += weight_at(label);
    }
  }

  bool counts(std::int64_t row) const { return label_at(row) != ignored_; }
  CrossEntropyTarget<T> row(std::int64_t i) const {
    return {label_at(i), weights_.defined() ? weights_.impl()->typed<T>() : nullptr, weight_sum_,
            smoothing_};
  }
  /// Sum of the weights of all counted labels: what the mean divides by.
  T total() const { return static_cast<T>(total_); }

 private:
  std::int64_t label_at(std::int64_t i) const { return labels_.impl()->typed<std::int64_t>()[i]; }
  double weight_at(std::int64_t label) const {
    return weights_.defined() ? static_cast<double>(weights_.impl()->typed<T>()[label]) : 1;
  }

  Tensor labels_, weights_;
  std::int64_t ignored_;
  T smoothing_;
  T weight_sum_;
  double total_ = 0;
};

template <class T>
void loss_forward(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::cross_entropy_loss_attrs>();
  const Tensor logits = args.in(0).detach().contiguous();
  const std::int64_t rows = logits.sizes()[0], classes = logits.sizes()[1];
  const Targets<T> targets(args.in(1), args.in(2), classes, attrs.ignore_index,
                           attrs.label_smoothing);
  T* log_probs = args.out(1).impl()->typed<T>();
  T* out = args.out(0).impl()->typed<T>();
  const bool per_row = attrs.reduction == "none";
  // Partial sums by slice, joined in order: independent of the number of threads.
  const std::int64_t slice = rows_per_slice(classes);
  SmallVector<double, 16> sums(static_cast<std::size_t>(base::divide_up(rows, slice)), 0.0);
  const auto losses_of = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const T loss = targets.counts(i)
                         ? loops<T>().loss(log_probs + i * classes, classes, targets.row(i))
                         : T(0);
      if (per_row) {
        out[i] = loss;
      } else {
        sums[static_cast<std::size_t>(i / slice)] += static_cast<double>(loss);
      }
    }
  };
  const Operands<T> operands = {logits.impl()->typed<T>(), nullptr, log_probs};
  const bool stream = streams<T>(rows, classes), as_columns = is_short<T>(classes, false);
  // With smoothing, losses read whole rows, and memory is slow to give back what it has just got.
  const bool later = as_columns || (stream && attrs.label_smoothing > 0);
  if (logits.numel() == 0) {
    losses_of(0, rows);
  } else if (as_columns) {
    run_narrow_columns(loops<T>().log_softmax, operands, {rows, classes, 1});
  } else {
    run_rows(loops<T>().log_softmax, operands, rows, classes, stream,
             [&](std::int64_t first, std::int64_t last) {
               if (!later) losses_of(first, last);
             });
  }
  if (later && logits.numel() > 0) for_rows(rows, slice, losses_of);
  if (per_row) return;
  double sum = 0;
  for (double part : sums) sum += part;
  const double divisor = attrs.reduction == "mean" ? static_cast<double>(targets.total()) : 1;
  out[0] = static_cast<T>(sum / divisor);
}

template <class T>
void loss_backward(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::cross_entropy_loss_backward_attrs>();
  const Tensor grad = args.in(0).detach().contiguous();
  const Tensor log_probs = args.in(1).detach().contiguous();
  const std::int64_t rows = log_probs.sizes()[0], classes = log_probs.sizes()[1];
  const Targets<T> targets(args.in(2), args.in(3), classes, attrs.ignore_index,
                           attrs.label_smoothing);
  const T* grads = grad.impl()->typed<T>();
  const bool per_row = attrs.reduction == "none";
  const T divisor = attrs.reduction == "mean" ? targets.total() : T(1);
  for_rows(rows, rows_per_slice(classes), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      T* out = args.out().impl()->typed<T>() + i * classes;
      if (!targets.counts(i)) {
        std::fill_n(out, classes, T(0));
        continue;
      }
      loops<T>().loss_gradient(log_probs.impl()->typed<T>() + i * classes, classes, targets.row(i),
                               grads[per_row ? i : 0] / divisor, out);
    }
  });
}

void cross_entropy(const KernelArgs& args) {
  args.in(0).dtype() == kFloat32 ? loss_forward<float>(args) : loss_forward<double>(args);
}
void cross_entropy_backward(const KernelArgs& args) {
  args.in(1).dtype() == kFloat32 ? loss_backward<float>(args) : loss_backward<double>(args);
}

}  // namespace

void register_softmax() {
  add(OpId::softmax, {"rows", nullptr, softmax});
  add(OpId::log_softmax, {"rows", nullptr, log_softmax});
  add(OpId::softmax_backward, {"rows", nullptr, softmax_backward});
  add(OpId::log_softmax_backward, {"rows", nullptr, log_softmax_backward});
  add(OpId::cross_entropy_loss, {"rows", nullptr, cross_entropy});
  add(OpId::cross_entropy_loss_backward, {"rows", nullptr, cross_entropy_backward});
}

}  // namespace facula::cpu
