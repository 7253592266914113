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
namespace facula::ops {

OpDef define_pow() {
  return elementwise<scalar::pow_functor>({
      .signature = "pow(Tensor self, Tensor exponent) -> Tensor",
      .doc =
          "self to the power of exponent, with the special values of C; integers wrap, and refuse "
          "a negative number as exponent.  self, exponent: [*] -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(0), exponent = g.input(1);
            if (g.needs(0)) {
              const Tensor slope = exponent * pow(self, exponent - 1);
              g.set(0, g.grad() * where(exponent == 0, 0, slope));
            }
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
  });
}

}  // namespace facula::ops
#endif
