// Rows of softmax, log-softmax and cross-entropy.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

/// Rows of at least so many elements have more partial results than a vector has lanes.
constexpr std::int64_t kSoftmaxLongRow = 256;

/// The target distribution of one row: (1 - smoothing) * weight[target] at the target plus
/// smoothing / classes * weight[c] everywhere. Without weights every weight is 1.
template <class T>
struct CrossEntropyTarget {
  std::int64_t target;
  const T* weights;  ///< may be null
  T weight_sum;      ///< of all classes
  T smoothing;
};

template <class T>
struct SoftmaxLoops {
  /// out = softmax or log-softmax of each of `rows` rows of n elements.
  void (*softmax)(const T* in, T* out, std::int64_t rows, std::int64_t n);
  void (*log_softmax)(const T* in, T* out, std::int64_t rows, std::int64_t n);
  /// The same past the caches, with the same bits, for rows of at least kSoftmaxLongRow elements;
  /// `scratch` is room for another row.
  void (*stream_softmax)(const T* in, T* out, std::int64_t rows, std::int64_t n, T* scratch);
  void (*stream_log_softmax)(const T* in, T* out, std::int64_t rows, std::int64_t n, T* scratch);
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
