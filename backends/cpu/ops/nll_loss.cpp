// Negative log-likelihood: one element of a sample, picked where it lies, and its gradient.
#include <algorithm>
#include <limits>
#include <type_traits>

#include <facula/ops.h>

#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/streaming.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/attrs/nll_loss.h"
#include "ops/attrs/nll_loss_backward.h"
#include "ops/schema/channels.h"
#include "ops/schema/cross_entropy.h"

namespace facula::cpu {
namespace {

constexpr std::int64_t kSliceLabels = 4096, kSliceElements = 16384;

/// Scores of classes in memory: planes of positions for every class of a sample, or the classes of
/// every position side by side (one position per sample, or channels_last).
struct Scores {
  std::int64_t samples, classes, positions;
  bool beside;

  explicit Scores(const TensorImpl& impl) {
    const bool one = impl.dim == 1;
    samples = one ? 1 : impl.sizes[0];
    classes = impl.sizes[one ? 0 : 1];
    positions = 1;
    for (int d = 2; d < impl.dim; ++d) positions *= impl.sizes[d];
    beside = positions == 1 || (impl.dim > 2 && classes > 1 && impl.strides[1] == 1);
  }
  /// Of label i's class `c`.
  std::int64_t at(std::int64_t i, std::int64_t c) const {
    if (beside) return i * classes + c;
    return (i / positions * classes + c) * positions + i % positions;
  }
};

/// Labels and weights; labels are checked as they are met.
template <class T>
class Labels {
 public:
  Labels(const Tensor& target, const Tensor& weight, std::int64_t classes, std::int64_t ignored)
      : target_(target.contiguous()),
        weight_(weight.defined() ? weight.contiguous() : weight),
        classes_(classes),
        ignored_(ignored) {}

  std::int64_t count() const { return target_.numel(); }

  /// Calls counted(label's index, label, weight) for those of [first, last) that are not ignored.
  template <class Counted>
  void for_each(std::int64_t first, std::int64_t last, Counted counted) const {
    const auto* labels = target_.impl()->typed<std::int64_t>();
    const T* weights = weight_.defined() ? weight_.impl()->typed<T>() : nullptr;
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t label = labels[i];
      if (label == ignored_) continue;
      check_label(label, i, classes_, "nll_loss");
      counted(i, label, weights ? weights[label] : T(1));
    }
  }

  /// The sums of `part`, which returns that of the labels [first, last), in the same order for any
  /// number of threads.
  template <class Sum, class Part>
  Sum sum(Part part) const {
    const std::int64_t slices = base::divide_up(count(), kSliceLabels);
    const Scratch<Sum> sums(slices);
    base::parallel_for(slices, [&](std::int64_t slice) {
      sums[slice] = part(slice * kSliceLabels, std::min((slice + 1) * kSliceLabels, count()));
    });
    Sum total{};
    for (std::int64_t slice = 0; slice < slices; ++slice) total += sums[slice];
    return total;
  }

 private:
  Tensor target_, weight_;
  std::int64_t classes_, ignored_;
};

struct Totals {
  double loss = 0, weight = 0;

  void operator+=(const Totals& other) {
    loss += other.loss;
    weight += other.weight;
  }
};

/// A tensor whose classes lie as Scores has it.
Tensor in_known_layout(const Tensor& self) {
  return is_channels_last(self) ? self.detach() : self.detach().contiguous();
}

template <class T>
void forward(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::nll_loss_attrs>();
  const Tensor self = in_known_layout(args.in(0));
  const Scores scores(*self.impl());
  const Labels<T> labels(args.in(1), args.in(2), scores.classes, attrs.ignore_index);
  const T* x = self.impl()->typed<T>();
  T* out = args.out().impl()->typed<T>();
  const bool each = attrs.reduction == "none";
  const Totals totals = labels.template sum<Totals>([&](std::int64_t first, std::int64_t last) {
    Totals own;
    if (each) std::fill(out + first, out + last, T(0));
    labels.for_each(first, last, [&](std::int64_t i, std::int64_t label, T weight) {
      const T loss = -weight * x[scores.at(i, label)];
      if (each) out[i] = loss;
      own += {static_cast<double>(loss), static_cast<double>(weight)};
    });
    return own;
  });
  if (each) return;
  *out = static_cast<T>(attrs.reduction == "sum" ? totals.loss : totals.loss / totals.weight);
}

/// Zeros, and value(index, weight) at the label of every row of classes that counts, past the
/// caches if they have no room for all.
template <class T, class Value>
void write_rows(const Labels<T>& labels, std::int64_t classes, T* out, Value value) {
  const std::int64_t bytes = classes * static_cast<std::int64_t>(sizeof(T));
  const bool past_caches = worth_streaming(labels.count() * bytes);
  const std::int64_t rows = std::max<std::int64_t>(1, kSliceElements / classes);
  base::parallel_for(base::divide_up(labels.count(), rows), [&](std::int64_t slice) {
    const std::int64_t first = slice * rows, last = std::min(first + rows, labels.count());
    if (!past_caches) {
      std::fill(out + first * classes, out + last * classes, T(0));
      labels.for_each(first, last, [&](std::int64_t i, std::int64_t label, T weight) {
        out[i * classes + label] = value(i, weight);
      });
      return;
    }
    const Scratch<T> row(classes);
    std::fill_n(row.data(), classes, T(0));
    for (std::int64_t i = first; i < last; ++i) {
      std::int64_t place = 0;
      labels.for_each(i, i + 1, [&](std::int64_t, std::int64_t label, T weight) {
        row[place = label] = value(i, weight);
      });
      stream(out + i * classes, row.data(), bytes);
      row[place] = T(0);
    }
    finish_streaming();
  });
}

/// The same for planes of positions: every element is written once, since planes that are a power
/// of two apart drive each other out of the caches.
template <class T, class Value>
void write_planes(const Labels<T>& labels, const Scores& scores, T* out, Value value) {
  using Label = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;  // fill vectors
  check<ShapeError>(scores.classes <= std::numeric_limits<Label>::max(),
                    "nll_loss_backward: {} classes of float32 planes; there may be 2147483647",
                    scores.classes);
  constexpr std::int64_t kPart = 1024;
  const std::int64_t positions = scores.positions, parts = base::divide_up(positions, kPart);
  const std::int64_t size = sizeof(T);
  const bool past_caches = worth_streaming(labels.count() * scores.classes * size);
  base::parallel_for(scores.samples * parts, [&](std::int64_t slice) {
    const std::int64_t sample = slice / parts, begin = slice % parts * kPart;
    const std::int64_t n = std::min(kPart, positions - begin), first = sample * positions + begin;
    T values[kPart], plane[kPart];
    Label own[kPart];
    std::fill_n(own, n, Label(-1));
    labels.for_each(first, first + n, [&](std::int64_t i, std::int64_t label, T weight) {
      own[i - first] = static_cast<Label>(label);
      values[i - first] = value(i, weight);
    });
    for (std::int64_t c = 0; c < scores.classes; ++c) {
      T* to = out + scores.at(first, c);
      T* line = past_caches ? plane : to;
      const auto wanted = static_cast<Label>(c);
      for (std::int64_t i = 0; i < n; ++i) line[i] = own[i] == wanted ? values[i] : T(0);
      if (past_caches) stream(to, plane, n * size);
    }
    if (past_caches) finish_streaming();
  });
}

template <class T>
void backward(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::nll_loss_backward_attrs>();
  const Scores scores(*args.out().impl());
  if (args.out().numel() == 0) return;
  const Labels<T> labels(args.in(2), args.in(3), scores.classes, attrs.ignore_index);
  const Tensor grad = args.in(0).detach().contiguous();
  const T* grads = grad.impl()->typed<T>();
  const bool each = attrs.reduction == "none";
  T divisor = T(1);
  if (attrs.reduction == "mean") {
    divisor =
        static_cast<T>(labels.template sum<double>([&](std::int64_t first, std::int64_t last) {
          double own = 0;
          labels.for_each(first, last, [&](std::int64_t, std::int64_t, T weight) {
            own += static_cast<double>(weight);
          });
          return own;
        }));
  }
  const auto value = [&](std::int64_t i, T weight) {
    return -weight * (grads[each ? i : 0] / divisor);
  };
  T* out = args.out().impl()->typed<T>();
  scores.beside ? write_rows(labels, scores.classes, out, value)
                : write_planes(labels, scores, out, value);
}

void nll_loss(const KernelArgs& args) {
  args.in(0).dtype() == kFloat32 ? forward<float>(args) : forward<double>(args);
}
void nll_loss_backward(const KernelArgs& args) {
  args.in(0).dtype() == kFloat32 ? backward<float>(args) : backward<double>(args);
}

}  // namespace

void register_nll_loss() {
  add(OpId::nll_loss, {"one pass", nullptr, nll_loss});
  add(OpId::nll_loss_backward, {"one pass", nullptr, nll_loss_backward});
}

}  // namespace facula::cpu
