#include "backends/cpu/kernels/softmax.h"

#include "ops/schema/scalar.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// Partial results of a row, the same number on every instruction set: equal bits. Long rows have
/// several vectors of them, so that none waits for the one before.
constexpr int kFewLanes = 16, kManyLanes = 64;
constexpr std::int64_t kLongRow = 256;

/// Joins term(k) for k < n.
template <int Lanes, class T, class Term, class Join>
[[gnu::always_inline]] inline T reduce_lanes(std::int64_t n, T first, Term term, Join join) {
  T lanes[Lanes];
  for (T& lane : lanes) lane = first;
  std::int64_t k = 0;
  for (; k + Lanes <= n; k += Lanes) {
#pragma GCC unroll 1  // not before it is vectorised
    for (int i = 0; i < Lanes; ++i) lanes[i] = join(lanes[i], term(k + i));
  }
  for (int i = 0; k < n; ++k, ++i) lanes[i] = join(lanes[i], term(k));
  for (int width = Lanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] = join(lanes[i], lanes[i + width]);
  }
  return lanes[0];
}
template <class T, class Term, class Join>
[[gnu::always_inline]] inline T reduce_row(std::int64_t n, T first, Term term, Join join) {
  return n < kLongRow ? reduce_lanes<kFewLanes>(n, first, term, join)
                      : reduce_lanes<kManyLanes>(n, first, term, join);
}

template <class T>
[[gnu::always_inline]] inline T row_max(const T* x, std::int64_t n) {
  return reduce_row(
      n, x[0], [&](std::int64_t k) { return x[k]; }, [](T a, T b) { return scalar::max(a, b); });
}
template <class T, class Term>
[[gnu::always_inline]] inline T row_sum(std::int64_t n, Term term) {
  return reduce_row(n, T(0), term, [](T a, T b) { return a + b; });
}

template <class T>
void softmax(const T* __restrict in, T* __restrict out, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, in += n, out += n) {
    const T top = row_max(in, n);
    const T factor =
        T(1) / row_sum<T>(n, [=](std::int64_t k) { return out[k] = scalar::exp(in[k] - top); });
    for (std::int64_t k = 0; k < n; ++k) out[k] *= factor;
  }
}

template <class T>
void log_softmax(const T* __restrict in, T* __restrict out, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, in += n, out += n) {
    const T top = row_max(in, n);
    const T sum = row_sum<T>(n, [=](std::int64_t k) { return scalar::exp(in[k] - top); });
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
