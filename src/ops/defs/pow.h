#pragma once

#include "ops/attrs/pow.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct pow_functor : NumericFunctor {
  template <class T>
  FACULA_FN T operator()(T x, T exponent) const {
    return pow(x, exponent);
  }
  static constexpr uint32_t rare = detail::kRareLogarithm;
  FACULA_FN uint32_t rarity(float x, float) const { return detail::log_rarity(x); }
  FACULA_FN uint32_t rarity(double x, double exponent) const {
    return detail::pow_rarity(x, exponent);
  }
  FACULA_FN double common(double x, double exponent) const { return common_pow(x, exponent); }
  FACULA_FN auto begin(float x, float) const { return detail::log2_parts(x); }
  FACULA_FN auto halfway(detail::Log2Parts log2x, float, float exponent) const {
    return detail::split_product(exponent, detail::log2_pair(log2x));
  }
  static constexpr uint32_t rare_halfway = detail::kRareProduct;
  FACULA_FN uint32_t rarity(detail::FloatPair half) const { return detail::product_rarity(half); }
  FACULA_FN float complete(float high, float low) const { return detail::common_exp2({high, low}); }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
#include "core/tensor_impl.h"

namespace facula::ops {

/// d self^exponent / d self, 0 for the exponent 0, where self may be 0, too.
static Tensor slope_of_power(const Tensor& self, const Tensor& exponent) {
  if (!exponent.impl()->has(TensorImpl::kWrappedNumber)) {
    return where(exponent == 0, 0, exponent * pow(self, exponent - 1));
  }
  const double number = exponent.item();
  return number == 0 ? zeros_like(self) : pow(self, number - 1) * number;
}

OpDef define_pow() {
  return elementwise<scalar::pow_functor>({
      .signature = "pow(Tensor self, Tensor exponent) -> Tensor",
      .doc =
          "self to the power of exponent, with the special values of C; integers wrap, and refuse "
          "a negative number as exponent.  Floating tensors to the power of the numbers -1, 0.5 "
          "and "
          "-0.5 are reciprocal, sqrt and rsqrt, which differ for -0 and -inf.  self, exponent: [*] "
          "-> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(0), exponent = g.input(1);
            if (g.needs(0)) g.set(0, g.grad() * slope_of_power(self, exponent));
            if (g.needs(1)) {
              const Tensor slope = g.output(0) * log(self);
              g.set(1, g.grad() * where(logical_and(self == 0, exponent >= 0), 0, slope));
            }
          },
      .saves = {input(0), input(1), output(0).for_grad_of(1)},
      .autocast = Autocast::full,
      .samples =
          [](Samples& s) {
            s.add({s.uniform({3, 4}, 0.3, 3), s.uniform({3, 4}, -2, 3)});
            s.add({s.uniform({2, 3}, 0.3, 3), s.uniform({3}, -2, 3)});
            s.add({s.uniform({}, 0.3, 3), s.uniform({}, -2, 3)});
            s.add({s.integers({5}, -4, 4), s.integers({5}, 0, 5)});
          },
      .errors = binary_errors,
      .numbers =
          [](Scalar number, std::size_t input, DType dtype, const char* op) {
            check<ValueError>(input == 0 || number.to_int() >= 0,
                              "{}: integers to the negative power {} are no integers; give the "
                              "exponent as {}.0 or convert the tensor with to(kFloat32)",
                              op, number, number);
            fitting_numbers(number, input, dtype, op);
          },
      .shortcut =
          [](double exponent, DType dtype) {
            if (exponent == 2) return OpId::square;
            if (exponent == 3) return OpId::cube;
            if (!is_floating_point(dtype)) return OpId::pow;
            if (exponent == -1) return OpId::reciprocal;
            if (exponent == 0.5) return OpId::sqrt;
            return exponent == -0.5 ? OpId::rsqrt : OpId::pow;
          },
  });
}

}  // namespace facula::ops
#endif
