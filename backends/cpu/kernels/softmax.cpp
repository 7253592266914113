#include "backends/cpu/kernels/softmax.h"

#include "ops/schema/scalar.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// Partial results per row, the same number on every instruction set: equal bits.
constexpr int kLanes = 16;

template <class T>
T row_max(const T* x, std::int64_t n) {
  T lanes[kLanes];
  for (T& lane : lanes) lane = x[0];
  std::int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    for (int i = 0; i < kLanes; ++i) lanes[i] = scalar::max(lanes[i], x[k + i]);
  }
  for (int i = 0; k < n; ++k, ++i) lanes[i] = scalar::max(lanes[i], x[k]);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] = scalar::max(lanes[i], lanes[i + width]);
  }
  return lanes[0];
}

/// Sum of term(k) for k < n.
template <class T, class Term>
[[gnu::always_inline]] inline T row_sum(std::int64_t n, Term term) {
  T lanes[kLanes] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    for (int i = 0; i < kLanes; ++i) lanes[i] += term(k + i);
  }
  for (int i = 0; k < n; ++k, ++i) lanes[i] += term(k);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

template <class T>
void softmax(const T* in, T* out, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, in += n, out += n) {
    const T top = row_max(in, n);
    for (std::int64_t k = 0; k < n; ++k) out[k] = scalar::exp(in[k] - top);
    const T factor = T(1) / row_sum<T>(n, [&](std::int64_t k) { return out[k]; });
    for (std::int64_t k = 0; k < n; ++k) out[k] *= factor;
  }
}

template <class T>
void log_softmax(const T* in, T* out, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, in += n, out += n) {
    const T top = row_max(in, n);
    const T sum = row_sum<T>(n, [&](std::int64_t k) { return scalar::exp(in[k] - top); });
    const T log_sum = scalar::log(sum);
    for (std::int64_t k = 0; k < n; ++k) out[k] = (in[k] - top) - log_sum;
  }
}

template <class T>
T at_target(const CrossEntropyTarget<T>& t) {
  return (T(1) - t.smoothing) * (t.weights ? t.weights[t.target] : T(1));
}

template <class T>
T loss(const T* log_probs, std::int64_t n, const CrossEntropyTarget<T>& t) {
  const T direct = -at_target(t) * log_probs[t.target];
  if (t.smoothing == T(0)) return direct;
  const T even = row_sum<T>(
      n, [&](std::int64_t k) { return log_probs[k] * (t.weights ? t.weights[k] : T(1)); });
  return direct - t.smoothing / static_cast<T>(n) * even;
}

template <class T>
void loss_gradient(const T* log_probs, std::int64_t n, const CrossEntropyTarget<T>& t, T scale,
                   T* out) {
  const T even = t.smoothing / static_cast<T>(n);
  const T total = at_target(t) + even * t.weight_sum;
  if (t.weights) {
    for (std::int64_t k = 0; k < n; ++k) {
      out[k] = scale * (scalar::exp(log_probs[k]) * total - even * t.weights[k]);
    }
  } else {
    for (std::int64_t k = 0; k < n; ++k) {
      out[k] = scale * (scalar::exp(log_probs[k]) * total - even);
    }
  }
  out[t.target] -= scale * at_target(t);
}

template <class T>
constexpr SoftmaxLoops<T> loops() {
  return {softmax<T>, log_softmax<T>, loss<T>, loss_gradient<T>};
}

}  // namespace

extern const SoftmaxKernels softmax_kernels = {loops<float>(), loops<double>()};

}  // namespace facula::cpu::FACULA_ISA
