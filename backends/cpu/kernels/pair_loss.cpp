#include "backends/cpu/kernels/pair_loss.h"

#include <type_traits>

#include "backends/cpu/kernels/ask_ahead.h"
#include "ops/defs/absolute_error.h"
#include "ops/defs/huber_error.h"
#include "ops/defs/logit_cross_entropy.h"
#include "ops/defs/squared_error.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// Partial sums: as many as fill four AVX-512 registers, on every instruction set, and so many
/// terms in one of them that rounding errors stay small.
constexpr int kLanes = 64;
constexpr std::int64_t kRounds = 32;

template <class F>
F functor_of([[maybe_unused]] double parameter) {
  if constexpr (std::is_empty_v<F>) {
    return F{};
  } else {
    return F{{}, {parameter}};
  }
}

/// Adds the terms of `rounds` times as many pairs as there are lanes.
template <class F, class T>
[[gnu::noinline]] void add_rounds(const F& functor, std::int64_t rounds, const T* self,
                                  const T* target, std::int64_t ahead, T* __restrict to) {
  T lanes[kLanes] = {};
  for (; rounds > 0; --rounds, self += kLanes, target += kLanes) {
    for (std::size_t i = 0; ahead > 0 && i < kLanes * sizeof(T); i += 64) {
      ask_second_level(reinterpret_cast<const char*>(self) + ahead + i);
      ask_second_level(reinterpret_cast<const char*>(target) + ahead + i);
    }
#pragma GCC unroll 1  // not before it is vectorised
    for (int i = 0; i < kLanes; ++i) lanes[i] += functor(self[i], target[i]);
  }
  for (int i = 0; i < kLanes; ++i) to[i] += lanes[i];
}

template <class F, class T>
double sum_of_terms(double parameter, const T* self, const T* target, std::int64_t n,
                    std::int64_t ahead) {
  const F functor = functor_of<F>(parameter);
  T totals[kLanes] = {};
  for (std::int64_t rounds = n / kLanes; rounds > 0; rounds -= kRounds) {
    const std::int64_t count = rounds < kRounds ? rounds : kRounds;
    add_rounds(functor, count, self, target, ahead, totals);
    self += count * kLanes;
    target += count * kLanes;
  }
  if (const std::int64_t left = n % kLanes; left > 0) {
    // Whole vectors once more: functors are compiled for nothing else.
    T rest[kLanes] = {}, rest_of_target[kLanes] = {}, terms[kLanes] = {};
    for (std::int64_t i = 0; i < left; ++i) {
      rest[i] = self[i];
      rest_of_target[i] = target[i];
    }
    add_rounds(functor, 1, rest, rest_of_target, 0, terms);
    for (std::int64_t i = 0; i < left; ++i) totals[i] += terms[i];
  }
  double sum = 0;
  for (const T total : totals) sum += static_cast<double>(total);
  return sum;
}

template <class T>
TermSum<T> sum_of(OpId term) {
  switch (term) {
    case OpId::squared_error: return sum_of_terms<scalar::squared_error_functor, T>;
    case OpId::absolute_error: return sum_of_terms<scalar::absolute_error_functor, T>;
    case OpId::huber_error: return sum_of_terms<scalar::huber_error_functor, T>;
    case OpId::logit_cross_entropy: return sum_of_terms<scalar::logit_cross_entropy_functor, T>;
    default: return nullptr;
  }
}

}  // namespace

extern const PairLossKernels pair_loss_kernels = {sum_of<float>, sum_of<double>};

}  // namespace facula::cpu::FACULA_ISA
