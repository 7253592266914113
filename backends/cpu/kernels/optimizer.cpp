// One pass over memory per parameter. The order of operations is that of PyTorch's for-loop
// implementations (torch/optim/sgd.py, adam.py, adamw.py).
#include "backends/cpu/kernels/optimizer.h"

#include "backends/cpu/kernels/ask_ahead.h"
#include "ops/schema/scalar_base.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// x / by, where `inverse` is 1 / by. Divisions take some processors as long as memory does. A
/// product that is nearly the quotient is corrected by its remainder, after which it is off by less
/// than an ulp, and so once more is rounded correctly (P. Markstein, "Computation of elementary
/// functions on the IBM RISC System/6000 processor", 1990).
template <class T>
[[gnu::always_inline]] inline T quotient(T x, T by, [[maybe_unused]] T inverse) {
#if defined(FACULA_HAS_FMA)
  const T product = x * inverse, remainder = scalar::fma(-product, by, x);
  const T nearer = scalar::fma(remainder, inverse, product);
  const T corrected = scalar::fma(scalar::fma(-nearer, by, x), inverse, nearer);
  return remainder == remainder ? corrected : product;  // infinity has no remainder
#else
  return x / by;
#endif
}

/// Calls body(i) for n elements of all streams, of which one may be null.
template <class T, class Body, class... Streams>
[[gnu::always_inline]] inline void for_elements(std::int64_t n, bool ask, Body body,
                                                const Streams*... streams) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  std::int64_t i = 0;
  for (; i + kLine <= n; i += kLine) {
    if (ask) ((streams ? ask_both_levels(streams + i) : void()), ...);
#pragma GCC unroll 1  // not before it is vectorised
    for (std::int64_t k = i; k < i + kLine; ++k) body(k);
  }
  for (; i < n; ++i) body(i);
}

/// A weight decay of 0 must not multiply: 0 * infinity would spread.
template <class T, SgdMomentum Kind, bool Nesterov, bool Decay>
void sgd_loop(const SgdScalars<T>& scalars, std::int64_t n, T* __restrict param,
              const T* __restrict grad, [[maybe_unused]] T* __restrict buffer) {
  const SgdScalars<T> s = scalars;
  const auto update = [=](std::int64_t i) __attribute__((always_inline)) {
    T step = s.sign * grad[i];
    if constexpr (Decay) step += s.weight_decay * param[i];
    if constexpr (Kind != SgdMomentum::none) {
      T velocity = step;
      if constexpr (Kind == SgdMomentum::later) {
        velocity = s.momentum * buffer[i] + s.undamped * step;
      }
      buffer[i] = velocity;
      step = Nesterov ? step + s.momentum * velocity : velocity;
    }
    param[i] += s.minus_lr * step;
  };
  for_elements<T>(n, s.ask_ahead, update, param, grad, buffer);
}

template <class T, SgdMomentum Kind>
void sgd_of_kind(const SgdScalars<T>& s, std::int64_t n, T* param, const T* grad, T* buffer) {
  const bool decay = s.weight_decay != 0;
  if (s.nesterov) {
    return decay ? sgd_loop<T, Kind, true, true>(s, n, param, grad, buffer)
                 : sgd_loop<T, Kind, true, false>(s, n, param, grad, buffer);
  }
  return decay ? sgd_loop<T, Kind, false, true>(s, n, param, grad, buffer)
               : sgd_loop<T, Kind, false, false>(s, n, param, grad, buffer);
}

template <class T>
void sgd(const SgdScalars<T>& s, std::int64_t n, T* param, const T* grad, T* buffer) {
  switch (s.kind) {
    case SgdMomentum::none: return sgd_of_kind<T, SgdMomentum::none>(s, n, param, grad, buffer);
    case SgdMomentum::first: return sgd_of_kind<T, SgdMomentum::first>(s, n, param, grad, buffer);
    case SgdMomentum::later: return sgd_of_kind<T, SgdMomentum::later>(s, n, param, grad, buffer);
  }
}

template <class T, bool Amsgrad, bool Decay>
void adam_loop(const AdamScalars<T>& scalars, std::int64_t n, T* __restrict param,
               const T* __restrict grad, T* __restrict mean, T* __restrict square,
               [[maybe_unused]] T* __restrict largest) {
  const AdamScalars<T> s = scalars;
  const T inverse = T(1) / s.sqrt_correction2;
  const auto update = [=](std::int64_t i) __attribute__((always_inline)) {
    const T value = param[i] * s.shrink;
    T g = s.sign * grad[i];
    if constexpr (Decay) g += s.weight_decay * value;
    const T m = mean[i] * s.beta1 + g * s.one_minus_beta1;
    T v = square[i] * s.beta2 + s.one_minus_beta2 * g * g;
    mean[i] = m;
    square[i] = v;
    if constexpr (Amsgrad) {
      v = largest[i] > v ? largest[i] : v;
      largest[i] = v;
    }
    const T denominator = quotient(scalar::sqrt(v), s.sqrt_correction2, inverse) + s.eps;
    param[i] = value + s.minus_step_size * m / denominator;
  };
  for_elements<T>(n, s.ask_ahead, update, param, grad, mean, square, largest);
}

template <class T>
void adam(const AdamScalars<T>& s, std::int64_t n, T* param, const T* grad, T* mean, T* square,
          T* largest) {
  const bool decay = s.weight_decay != 0;
  if (s.amsgrad) {
    return decay ? adam_loop<T, true, true>(s, n, param, grad, mean, square, largest)
                 : adam_loop<T, true, false>(s, n, param, grad, mean, square, largest);
  }
  return decay ? adam_loop<T, false, true>(s, n, param, grad, mean, square, largest)
               : adam_loop<T, false, false>(s, n, param, grad, mean, square, largest);
}

}  // namespace

extern const OptimizerKernels optimizer_kernels = {sgd<float>, sgd<double>, adam<float>,
                                                   adam<double>};

}  // namespace facula::cpu::FACULA_ISA
