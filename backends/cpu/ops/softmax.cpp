// Softmax, log-softmax and cross-entropy, forward and backward.
#include "backends/cpu/kernels/softmax.h"

#include <vector>

#include "backends/cpu/loops_of.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/streaming.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/attrs/cross_entropy_loss.h"
#include "ops/attrs/cross_entropy_loss_backward.h"
#include "ops/attrs/log_softmax.h"
#include "ops/attrs/softmax.h"
#include "ops/schema/cross_entropy.h"

#include <facula/ops.h>

namespace facula::cpu {
namespace {

template <class T>
const auto& loops() {
  return loops_of<T>(softmax_kernels());
}

/// Rows of n elements that one slice takes.
std::int64_t rows_per_slice(std::int64_t n) {
  constexpr std::int64_t kSliceElements = 8192;
  return std::max<std::int64_t>(1, kSliceElements / std::max<std::int64_t>(1, n));
}

/// Calls body(first row, last row) for slices of rows.
template <class Body>
void for_rows(std::int64_t rows, std::int64_t n, Body body) {
  const std::int64_t group = rows_per_slice(n);
  base::parallel_for((rows + group - 1) / group, [&](std::int64_t slice) {
    body(slice * group, std::min((slice + 1) * group, rows));
  });
}

// --- Softmax -------------------------------------------------------------------------------------

/// True if the results are better written past the caches and the loops for that can do it: three
/// rows at a time should stay in a core's cache.
bool streams(const Tensor& out, std::int64_t n) {
  constexpr std::int64_t kLongest = 1 << 16;
  return worth_streaming(out.nbytes()) && n >= kSoftmaxLongRow && n <= kLongest;
}

template <class T>
void stream_rows(const Tensor& in, const Tensor& out, std::int64_t n, bool log) {
  constexpr std::int64_t kSliceElements = 131072;
  // Rows of input and output often begin at the same place within a page. The scratch row must not:
  // processors would take loads of the one for loads of what was just stored in the other.
  constexpr std::int64_t kSkew = 272;
  const auto loop = log ? loops<T>().stream_log_softmax : loops<T>().stream_softmax;
  const std::int64_t rows = in.numel() / n, group = std::max<std::int64_t>(1, kSliceElements / n);
  base::parallel_for((rows + group - 1) / group, [&](std::int64_t slice) {
    const std::int64_t first = slice * group;
    const Scratch<T> scratch(kSkew + n);
    loop(in.impl()->typed<T>() + first * n, out.impl()->typed<T>() + first * n,
         std::min(group, rows - first), n, scratch.data() + kSkew);
    finish_streaming();
  });
}

/// Of contiguous rows of n elements.
template <class T>
void run_rows(const Tensor& in, const Tensor& out, std::int64_t n, bool log) {
  if (in.numel() == 0) return;
  if (streams(out, n)) return stream_rows<T>(in, out, n, log);
  const auto loop = log ? loops<T>().log_softmax : loops<T>().softmax;
  for_rows(in.numel() / n, n, [&](std::int64_t first, std::int64_t last) {
    loop(in.impl()->typed<T>() + first * n, out.impl()->typed<T>() + first * n, last - first, n);
  });
}

void run_softmax(const KernelArgs& args, std::int64_t dim, bool log) {
  const Tensor& self = args.in(0);
  const int d = wrap_dim(dim, self.dim(), args.call.op.name);
  const auto run = self.dtype() == kFloat32 ? run_rows<float> : run_rows<double>;
  const std::int64_t n = self.dim() == 0 ? 1 : self.sizes()[d];
  std::int64_t after = 1;
  for (int k = d + 1; k < self.dim(); ++k) after *= self.sizes()[k];
  if (after == 1 && self.is_contiguous()) return run(self, args.out(), n, log);
  // Bring the dimension to the end; rows are then contiguous.
  Dims order;
  for (int k = 0; k < self.dim(); ++k) {
    if (k != d) order.push_back(k);
  }
  order.push_back(d);
  const Tensor rows = permute(self.detach(), order).contiguous();
  const Tensor result = new_tensor(rows.sizes(), rows.dtype(), kCPU);
  run(rows, result, n, log);
  permute(args.out(), order).copy_(result);
}

void softmax(const KernelArgs& args) {
  run_softmax(args, args.attrs<ops::softmax_attrs>().dim, false);
}
void log_softmax(const KernelArgs& args) {
  run_softmax(args, args.attrs<ops::log_softmax_attrs>().dim, true);
}

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
  run_rows<T>(logits, args.out(1), classes, true);
  const T* log_probs = args.out(1).impl()->typed<T>();
  auto loss_at = [&](std::int64_t i) {
    return targets.counts(i) ? loops<T>().loss(log_probs + i * classes, classes, targets.row(i))
                             : T(0);
  };
  T* out = args.out(0).impl()->typed<T>();
  if (attrs.reduction == "none") {
    for (std::int64_t i = 0; i < rows; ++i) out[i] = loss_at(i);
    return;
  }
  // Partial sums by slice, joined in order: independent of the number of threads.
  const std::int64_t group = rows_per_slice(classes);
  SmallVector<double, 16> sums(static_cast<std::size_t>((rows + group - 1) / group), 0.0);
  for_rows(rows, classes, [&](std::int64_t first, std::int64_t last) {
    double sum = 0;
    for (std::int64_t i = first; i < last; ++i) sum += static_cast<double>(loss_at(i));
    sums[static_cast<std::size_t>(first / group)] = sum;
  });
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
  for_rows(rows, classes, [&](std::int64_t first, std::int64_t last) {
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
  add(OpId::cross_entropy_loss, {"rows", nullptr, cross_entropy});
  add(OpId::cross_entropy_loss_backward, {"rows", nullptr, cross_entropy_backward});
}

}  // namespace facula::cpu
