// Expectations about tensors and errors.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <facula/error.h>
#include <facula/tensor.h>

/// The statement throws exactly this kind of error, and its message contains `part`.
#define EXPECT_ERROR(Kind, part, ...)                                          \
  try {                                                                        \
    __VA_ARGS__;                                                               \
    ADD_FAILURE() << "nothing was thrown by " << #__VA_ARGS__;                 \
  } catch (const Kind& error) {                                                \
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)         \
        << "the message is: " << error.what();                                 \
  } catch (const std::exception& error) {                                      \
    ADD_FAILURE() << "another kind of exception was thrown: " << error.what(); \
  }

namespace facula {

inline void expect_values(const Tensor& tensor, const std::vector<double>& expected,
                          double tolerance = 1e-6) {
  ASSERT_TRUE(tensor.defined());
  const std::vector<double> values = tensor.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], tolerance) << "element " << i;
  }
}

inline void expect_equal(const Tensor& a, const Tensor& b) {
  ASSERT_TRUE(a.defined() && b.defined());
  ASSERT_EQ(a.sizes().vec(), b.sizes().vec());
  ASSERT_EQ(a.dtype(), b.dtype());
  EXPECT_EQ(a.to_vector<double>(), b.to_vector<double>());
}

/// A leaf with the given values that requires grad.
inline Tensor leaf(const std::vector<double>& values, DType dtype = kFloat32) {
  return tensor(values, {-1}, dtype).requires_grad_();
}

}  // namespace facula
