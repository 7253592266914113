// Rows of softmax, log-softmax and cross-entropy.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

/// Rows of at least so many elements have more partial results than a vector has lanes.
constexpr std::int64_t kSoftmaxLongRow = 256;

/// Columns that are worked on together: a cache line of them makes a strip.
template <class T>
constexpr int kSoftmaxColumns = 64 / sizeof(T);
constexpr int kSoftmaxStrips = 8;

/// `width` columns, at least kSoftmaxColumns, of n elements that are `stride` apart. They are read
/// `strips` at a time, at most kSoftmaxStrips.
struct SoftmaxColumns {
  std::int64_t n, stride, width;
  int strips;
  bool stream;  ///< where lines of results are aligned, write them past the caches
};

/// The target distribution of one row: (1 - smoothing) * weight[target] at the target plus
/// smoothing / classes * weight[c] everywhere. Without weights every weight is 1.
template <class T>
struct CrossEntropyTarget {
  std::int64_t target;
  const T* weights;  ///< may be null
  T weight_sum;      ///< of all classes
  T smoothing;
};

/// Softmax, log-softmax or the gradient of one of them. `in` is the input and `output` unused, or
/// they are the gradient of the output and that of the forward pass.
template <class T>
struct SoftmaxPass {
  /// Each of `rows` rows of n elements.
  void (*rows)(const T* in, const T* output, T* out, std::int64_t rows, std::int64_t n);
  /// The same past the caches, with the same bits, for rows of at least kSoftmaxLongRow elements;
  /// `scratch` is room for another row.
  void (*stream_rows)(const T* in, const T* output, T* out, std::int64_t rows, std::int64_t n,
                      T* scratch);
  /// Columns, with the bits of rows; `scratch` is room for the strips of all operands.
  void (*columns)(const T* in, const T* output, T* out, const SoftmaxColumns& columns, T* scratch);
};

template <class T>
struct SoftmaxLoops {
  SoftmaxPass<T> softmax, log_softmax, softmax_backward, log_softmax_backward;
  /// Cross-entropy of one row of log-probabilities.
  T (*loss)(const T* log_probs, std::int64_t n, const CrossEntropyTarget<T>& target);
  /// Its gradient with respect to the logits, times scale.
  void (*loss_gradient)(const T* log_probs, std::int64_t n, const CrossEntropyTarget<T>& target,
                        T scale, T* out);
};

struct SoftmaxKernels {
  SoftmaxLoops<float> f32;
  SoftmaxLoops<double> f64;
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(SoftmaxKernels, softmax)
