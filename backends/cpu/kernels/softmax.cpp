#include "backends/cpu/kernels/softmax.h"

#include "backends/cpu/kernels/powers.h"
#include "backends/cpu/kernels/stream_line.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
void softmax(const T* __restrict in, const T*, T* __restrict out, std::int64_t rows,
             std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, in += n, out += n) {
    const T top = row_max(in, n);
    const T factor =
        T(1) / row_sum<T>(n, [=](std::int64_t k) { return out[k] = power_of_any(in[k] - top); });
    for (std::int64_t k = 0; k < n; ++k) out[k] *= factor;
  }
}

template <class T>
void log_softmax(const T* __restrict in, const T*, T* __restrict out, std::int64_t rows,
                 std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, in += n, out += n) {
    const T top = row_max(in, n);
    const T log_sum = scalar::log(row_sum_of_terms(in, n, top, [](std::int64_t) {}));
    for (std::int64_t k = 0; k < n; ++k) out[k] = (in[k] - top) - log_sum;
  }
}

/// The probability of which this, at most 0, is the logarithm: zero where that is no normal float.
[[gnu::always_inline]] inline float probability(float log) {
  return scalar::common_exp(log < kLeastPower<float> ? kLeastPower<float> : log);
}
[[gnu::always_inline]] inline double probability(double log) { return scalar::exp(log); }

/// An element of the gradient of softmax or, with logarithm, log-softmax, and of what it sums.
template <bool kLog, class T>
[[gnu::always_inline]] inline T gradient_of(T grad, T output, T total) {
  return kLog ? grad - probability(output) * total : output * (grad - total);
}
template <bool kLog, class T>
[[gnu::always_inline]] inline T gradient_term(T grad, T output) {
  return kLog ? grad : grad * output;
}

template <bool kLog, class T>
void backward(const T* __restrict grad, const T* __restrict output, T* __restrict out,
              std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, grad += n, output += n, out += n) {
    const T total =
        row_sum<T>(n, [=](std::int64_t k) { return gradient_term<kLog>(grad[k], output[k]); });
    for (std::int64_t k = 0; k < n; ++k) out[k] = gradient_of<kLog>(grad[k], output[k], total);
  }
}

// Past the caches, the powers of a row are summed while the next one is read for its maximum and
// the results of the one before are written: memory and arithmetic never wait for each other.

/// The results of a row: `values` are exp(x - top), of which they are products with `last`, or,
/// with logarithm, x, of which they are (x - top) - last.
template <bool kLog, class T>
struct ForwardResults {
  const T* values;
  T top, last;

  [[gnu::always_inline]] T operator()(std::int64_t k) const {
    return kLog ? (values[k] - top) - last : values[k] * last;
  }
};
template <bool kLog, class T>
struct BackwardResults {
  const T *grad, *output;
  T total;

  [[gnu::always_inline]] T operator()(std::int64_t k) const {
    return gradient_of<kLog>(grad[k], output[k], total);
  }
};

/// Writes results row by row, whole cache lines past the caches. Rows follow each other in memory:
/// the end of one waits for the next, which completes the line.
template <class Results, class T>
class RowWriter {
 public:
  /// Begins a row of at least a line; the one before is finished.
  void begin(Results results, T* out, std::int64_t n) {
    results_ = results;
    out_ = out;
    n_ = n;
    done_ =
        static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(out) % kLineBytes / sizeof(T));
    if (done_ > 0) {
      T first[kLine];
      compute(0, first);
      T* rest = held_ > 0 ? line_ + held_ : out;
      for (std::int64_t i = 0; i < done_; ++i) rest[i] = first[i];
      if (held_ > 0) stream_line(out - held_, line_);
      held_ = 0;
    }
    // One step ahead of the row beside it: where rows begin at the same place within a page,
    // processors would take loads of that for loads of what was just stored.
    advance();
  }

  /// Writes the next kManyLanes results, or all that are left.
  [[gnu::always_inline]] void advance() {
    if (done_ + kManyLanes > n_) return finish();
    for (int k = 0; k < kManyLanes; k += kLine) write_line();
  }
  /// Writes all that are left of the row, but for the line in which it ends.
  void finish() {
    while (done_ + kLine <= n_) write_line();
    if (done_ == n_) return;
    T last[kLine];
    compute(n_ - kLine, last);
    for (; done_ < n_; ++done_) line_[held_++] = last[done_ - (n_ - kLine)];
  }
  /// Writes that, too.
  void end() {
    finish();
    for (std::int64_t i = 0; i < held_; ++i) out_[n_ - held_ + i] = line_[i];
  }

 private:
  static constexpr int kLine = kLineBytes / sizeof(T);

  [[gnu::always_inline]] void compute(std::int64_t first, T* line) const {
#pragma GCC unroll 1  // not before it is vectorised
    for (int i = 0; i < kLine; ++i) line[i] = results_(first + i);
  }
  [[gnu::always_inline]] void write_line() {
    alignas(kLineBytes) T line[kLine];
    compute(done_, line);
    stream_line(out_ + done_, line);
    done_ += kLine;
  }

  Results results_{};
  T* out_ = nullptr;
  std::int64_t n_ = 0, done_ = 0, held_ = 0;
  alignas(kLineBytes) T line_[kLine];  // the first held_ elements of the line in which a row ends
};

/// `powers` is room for a row, unused with logarithm.
template <bool kLog, class T>
void stream_rows(const T* __restrict in, const T*, T* __restrict out, std::int64_t rows,
                 std::int64_t n, T* __restrict powers) {
  T top = row_max(in, n);
  RowWriter<ForwardResults<kLog, T>, T> before;
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* x = in + r * n;
    const T* next = r + 1 < rows ? x + n : x;
    RowLanes<kLog, T> lanes(next[0]);
    const auto beside = [&](std::int64_t k) FACULA_INLINED {
      prefetch_lanes(next + k);
      before.advance();  // reads powers before they are overwritten
    };
    const std::int64_t k = lanes.add_many(n, x, top, powers, next, beside);
    before.finish();
    lanes.add_rest(n - k, x + k, top, powers + k, next + k);
    const T total = join_lanes<kManyLanes>(lanes.sums, sum<T>);
    const T last = kLog ? scalar::log(total) : T(1) / total;
    before.begin({kLog ? x : powers, top, last}, out + r * n, n);
    top = join_lanes<kManyLanes>(lanes.tops, larger<T>);
  }
  before.end();
}

/// A row is summed while the results of the one before are written.
template <bool kLog, class T>
void stream_backward(const T* __restrict grad, const T* __restrict output, T* __restrict out,
                     std::int64_t rows, std::int64_t n, T*) {
  RowWriter<BackwardResults<kLog, T>, T> before;
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* g = grad + r * n;
    const T* y = output + r * n;
    T sums[kManyLanes] = {};
    const auto add = [&](std::int64_t k, int lane)
                         FACULA_INLINED { sums[lane] += gradient_term<kLog>(g[k], y[k]); };
    std::int64_t k = 0;
    for (; k + kManyLanes <= n; k += kManyLanes) {
      prefetch_lanes(g + k);
      prefetch_lanes(y + k);
      before.advance();
#pragma GCC unroll 1  // not before it is vectorised
      for (int i = 0; i < kManyLanes; ++i) add(k + i, i);
    }
    before.finish();
    for (int i = 0; k < n; ++k, ++i) add(k, i);
    before.begin({g, y, join_lanes<kManyLanes>(sums, sum<T>)}, out + r * n, n);
  }
  before.end();
}

// Columns go in strips of kSoftmaxColumns, whose partial results are those of rows. Some strips
// side by side are copied together, so that memory is read in longer pieces, and worked on where
// they are packed: lines that are a power of two apart would drive each other out of the caches.

template <class T>
constexpr int kWidth = kSoftmaxColumns<T>;

/// Some strips of columns.
template <class T>
class Strips {
 public:
  Strips(const SoftmaxColumns& of, std::int64_t first)
      : n_(of.n), stride_(of.stride), stream_(of.stream) {
    // The last strip may overlap the one before.
    for (; count_ < of.strips && first < of.width; first += kWidth<T>) {
      places_[count_++] = first + kWidth<T> <= of.width ? first : of.width - kWidth<T>;
    }
  }

  /// Calls body(strip, line) for all of them.
  template <class Body>
  [[gnu::always_inline]] void for_each_line(Body body) const {
    for (std::int64_t k = 0; k < n_; ++k) {
      for (int s = 0; s < count_; ++s) body(s, k);
    }
  }
  [[gnu::always_inline]] std::int64_t place(int strip, std::int64_t k) const {
    return k * stride_ + places_[strip];
  }
  [[gnu::always_inline]] std::int64_t packed(int strip, std::int64_t k) const {
    return (strip * n_ + k) * kWidth<T>;
  }
  std::int64_t size() const { return count_ * n_ * kWidth<T>; }

  void pack(const T* __restrict from, T* __restrict to) const {
    for_each_line([&](int s, std::int64_t k) FACULA_INLINED {
      __builtin_memcpy(to + packed(s, k), from + place(s, k), sizeof(T) * kWidth<T>);
    });
  }
  /// totals[strip] = sums of the n lines of terms that line(index of the first, terms) computes.
  template <class Line>
  [[gnu::always_inline]] void sum(T (*totals)[kWidth<T>], Line line) const {
    for (int s = 0; s < count_; ++s) {
      const auto terms = [&](std::int64_t k, T* to) FACULA_INLINED { line(s, packed(s, k), to); };
      n_ < kLongRow ? sum_lines<kFewLanes>(totals[s], terms)
                    : sum_lines<kManyLanes>(totals[s], terms);
    }
  }
  /// Writes lines of result(strip, packed index, column).
  template <class Result>
  [[gnu::always_inline]] void write(T* out, Result result) const {
    const bool stream = stream_ && stride_ % kWidth<T> == 0;
    for_each_line([&](int s, std::int64_t k) FACULA_INLINED {
      alignas(kLineBytes) T line[kWidth<T>];
#pragma GCC unroll 1  // not before it is vectorised
      for (int c = 0; c < kWidth<T>; ++c) line[c] = result(s, packed(s, k) + c, c);
      T* to = out + place(s, k);
      if (stream && reinterpret_cast<std::uintptr_t>(to) % kLineBytes == 0) {
        stream_line(to, line);
      } else {
        __builtin_memcpy(to, line, sizeof line);
      }
    });
  }
  int count() const { return count_; }

 private:
  template <int Lanes, class Line>
  [[gnu::always_inline]] void sum_lines(T* totals, Line line) const {
    T lanes[Lanes][kWidth<T>] = {};
    for (std::int64_t k = 0; k < n_; ++k) {
      T terms[kWidth<T>];
      line(k, terms);
      for (int c = 0; c < kWidth<T>; ++c) lanes[k % Lanes][c] += terms[c];
    }
    for (int width = Lanes / 2; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) {
        for (int c = 0; c < kWidth<T>; ++c) lanes[i][c] += lanes[i + width][c];
      }
    }
    for (int c = 0; c < kWidth<T>; ++c) totals[c] = lanes[0][c];
  }

  std::int64_t n_, stride_;
  bool stream_;
  int count_ = 0;
  std::int64_t places_[kSoftmaxStrips];
};

template <bool kLog, class T>
void columns(const T* in, const T*, T* out, const SoftmaxColumns& of, T* x) {
  for (std::int64_t first = 0; first < of.width; first += of.strips * kWidth<T>) {
    const Strips<T> strips(of, first);
    strips.pack(in, x);
    T tops[kSoftmaxStrips][kWidth<T>], last[kSoftmaxStrips][kWidth<T>];
    for (int s = 0; s < strips.count(); ++s) {
      __builtin_memcpy(tops[s], x + strips.packed(s, 0), sizeof tops[s]);
      for (std::int64_t k = 1; k < of.n; ++k) {
        const T* line = x + strips.packed(s, k);
#pragma GCC unroll 1  // not before it is vectorised
        for (int c = 0; c < kWidth<T>; ++c) tops[s][c] = larger<T>(tops[s][c], line[c]);
      }
    }
    strips.sum(last, [&](int s, std::int64_t i, T* terms) FACULA_INLINED {
      if constexpr (kLog) return compute_terms<kWidth<T>>(x + i, tops[s], terms);
#pragma GCC unroll 1
      for (int c = 0; c < kWidth<T>; ++c) terms[c] = power_of_any(x[i + c] - tops[s][c]);
      __builtin_memcpy(x + i, terms, sizeof(T) * kWidth<T>);
    });
    for (int s = 0; s < strips.count(); ++s) {
      for (T& sum : last[s]) sum = kLog ? scalar::log(sum) : T(1) / sum;
    }
    strips.write(out, [&](int s, std::int64_t i, int c) FACULA_INLINED {
      return kLog ? (x[i] - tops[s][c]) - last[s][c] : x[i] * last[s][c];
    });
  }
}

template <bool kLog, class T>
void backward_columns(const T* grad, const T* output, T* out, const SoftmaxColumns& of, T* g) {
  for (std::int64_t first = 0; first < of.width; first += of.strips * kWidth<T>) {
    const Strips<T> strips(of, first);
    T* y = g + strips.size();
    strips.pack(grad, g);
    strips.pack(output, y);
    T totals[kSoftmaxStrips][kWidth<T>];
    strips.sum(totals, [&](int, std::int64_t i, T* terms) FACULA_INLINED {
#pragma GCC unroll 1  // not before it is vectorised
      for (int c = 0; c < kWidth<T>; ++c) terms[c] = gradient_term<kLog>(g[i + c], y[i + c]);
    });
    strips.write(out, [&](int s, std::int64_t i, int c)
                          FACULA_INLINED { return gradient_of<kLog>(g[i], y[i], totals[s][c]); });
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
      out[k] = scale * (probability(log_probs[k]) * total - even * t.weights[k]);
    }
  } else {
    for (std::int64_t k = 0; k < n; ++k) {
      out[k] = scale * (probability(log_probs[k]) * total - even);
    }
  }
  out[t.target] -= scale * at_target(t);
}

template <class T>
constexpr SoftmaxLoops<T> loops() {
  return {{softmax<T>, stream_rows<false, T>, columns<false, T>},
          {log_softmax<T>, stream_rows<true, T>, columns<true, T>},
          {backward<false, T>, stream_backward<false, T>, backward_columns<false, T>},
          {backward<true, T>, stream_backward<true, T>, backward_columns<true, T>},
          loss<T>,
          loss_gradient<T>};
}

}  // namespace

extern const SoftmaxKernels softmax_kernels = {loops<float>(), loops<double>()};

}  // namespace facula::cpu::FACULA_ISA
