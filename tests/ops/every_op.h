// Tests that run once for every op.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include <facula/error.h>

#include "tests/ops/op_examples.h"
#include "tests/support/expect.h"

namespace facula::test {

class OpTest : public testing::TestWithParam<const ops::DynamicOp*> {
 protected:
  const ops::DynamicOp& op() const { return *GetParam(); }
  template <class F>
  void for_each_sample(F body) {
    int index = 0;
    for (const Sample& sample : samples_of(op())) {
      SCOPED_TRACE(testing::Message() << op().name << ", sample " << index++);
      body(sample);
    }
  }
};

#define FACULA_FOR_EVERY_OP(Fixture)                                                       \
  INSTANTIATE_TEST_SUITE_P(Ops, Fixture, testing::ValuesIn(all_ops()),                     \
                           [](const testing::TestParamInfo<const ops::DynamicOp*>& info) { \
                             return std::string(info.param->name);                         \
                           })

/// Equal up to rounding: |a - b| <= tolerance * (1 + |b|), where infinities and NaN must agree.
inline void expect_close(const Tensor& a, const Tensor& b, double tolerance) {
  ASSERT_EQ(a.defined(), b.defined());
  if (!a.defined()) return;
  ASSERT_EQ(a.sizes().vec(), b.sizes().vec());
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool close = std::isfinite(y[i])
                           ? std::abs(x[i] - y[i]) <= tolerance * (1 + std::abs(y[i]))
                           : x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
    ASSERT_TRUE(close) << "element " << i << " is " << x[i] << ", expected " << y[i];
  }
}

inline void expect_close(const std::vector<Tensor>& a, const std::vector<Tensor>& b,
                         double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "result " << i);
    expect_close(a[i], b[i], tolerance);
  }
}

}  // namespace facula::test
