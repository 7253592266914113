#include "backends/cpu/kernels/softmax.h"

#include "backends/cpu/kernels/stream_line.h"
#include "ops/schema/scalar.h"

namespace facula::cpu::FACULA_ISA {
namespace {

#define FACULA_INLINED __attribute__((always_inline))  // for lambdas

/// Partial results of a row, the same number on every instruction set: equal bits. Long rows have
/// several vectors of them, so that none waits for the one before.
constexpr int kFewLanes = 16, kManyLanes = kSoftmaxLanes;
constexpr std::int64_t kLongRow = kSoftmaxLongRow;

template <int Lanes, class T, class Join>
[[gnu::always_inline]] inline T join_lanes(T* lanes, Join join) {
  for (int width = Lanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] = join(lanes[i], lanes[i + width]);
  }
  return lanes[0];
}

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
  return join_lanes<Lanes>(lanes, join);
}
template <class T, class Term, class Join>
[[gnu::always_inline]] inline T reduce_row(std::int64_t n, T first, Term term, Join join) {
  return n < kLongRow ? reduce_lanes<kFewLanes>(n, first, term, join)
                      : reduce_lanes<kManyLanes>(n, first, term, join);
}

/// The larger one, or either if one is NaN: that reaches the sum of the row's powers all the same.
template <class T>
constexpr auto larger = [](T a, T b) { return a < b ? b : a; };
template <class T>
constexpr auto sum = [](T a, T b) { return a + b; };

template <class T>
[[gnu::always_inline]] inline T row_max(const T* x, std::int64_t n) {
  return reduce_row(
      n, x[0], [&](std::int64_t k) { return x[k]; }, larger<T>);
}
template <class T, class Term>
[[gnu::always_inline]] inline T row_sum(std::int64_t n, Term term) {
  return reduce_row(n, T(0), term, sum<T>);
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

/// What a row's results are made of: those of softmax are exp(x - top) * last, those of log-softmax
/// (x - top) - last.
template <class T>
struct RowTerms {
  T top, last;
};

/// Writes kManyLanes results past the caches: `values` are x or, without logarithm, exp(x - top).
template <bool kLog, class T>
[[gnu::always_inline]] inline void stream_lanes(const T* __restrict values, RowTerms<T> row,
                                                T* __restrict out) {
  constexpr int kLine = kLineBytes / sizeof(T);
  for (int k = 0; k < kManyLanes; k += kLine) {
    alignas(kLineBytes) T line[kLine];
#pragma GCC unroll 1  // not before it is vectorised
    for (int i = 0; i < kLine; ++i) {
      line[i] = kLog ? (values[k + i] - row.top) - row.last : values[k + i] * row.last;
    }
    stream_line(out + k, line);
  }
}

/// Asks for what comes so far ahead in memory: among several streams, processors foresee too
/// little.
template <class T>
[[gnu::always_inline]] inline void prefetch_lanes(const T* x) {
  constexpr int kAheadBytes = 4096;
  for (int k = 0; k < kManyLanes; k += static_cast<int>(kLineBytes / sizeof(T))) {
    __builtin_prefetch(reinterpret_cast<const char*>(x + k) + kAheadBytes);
  }
}

/// The same results, past the caches. While the powers of a row are summed, the next one is read
/// for its maximum and the results of the one before are written, so that memory and arithmetic
/// never wait for each other. `powers` is room for a row, unused with logarithm.
template <bool kLog, class T>
void stream_rows(const T* __restrict in, T* __restrict out, std::int64_t rows, std::int64_t n,
                 T* __restrict powers) {
  T top = row_max(in, n);
  RowTerms<T> before = {};
  const auto write_before = [&](std::int64_t r, std::int64_t k) FACULA_INLINED {
    stream_lanes<kLog>(kLog ? in + r * n + k : powers + k, before, out + r * n + k);
  };
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* x = in + r * n;
    const T* next = r + 1 < rows ? x + n : x;
    T sums[kManyLanes] = {}, tops[kManyLanes];
    for (T& lane : tops) lane = next[0];
    for (std::int64_t k = 0; k < n; k += kManyLanes) {
      prefetch_lanes(next + k);
      if (r > 0) write_before(r - 1, k);
#pragma GCC unroll 1  // not before it is vectorised
      for (int i = 0; i < kManyLanes; ++i) {
        const T power = scalar::exp(x[k + i] - top);
        if constexpr (!kLog) powers[k + i] = power;
        sums[i] += power;
      }
#pragma GCC unroll 1
      for (int i = 0; i < kManyLanes; ++i) tops[i] = larger<T>(tops[i], next[k + i]);
    }
    const T total = join_lanes<kManyLanes>(sums, sum<T>);
    before = {top, kLog ? scalar::log(total) : T(1) / total};
    top = join_lanes<kManyLanes>(tops, larger<T>);
  }
  for (std::int64_t k = 0; k < n; k += kManyLanes) write_before(rows - 1, k);
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
  return {softmax<T>,           log_softmax<T>, stream_rows<false, T>,
          stream_rows<true, T>, loss<T>,        loss_gradient<T>};
}

}  // namespace

extern const SoftmaxKernels softmax_kernels = {loops<float>(), loops<double>()};

}  // namespace facula::cpu::FACULA_ISA
