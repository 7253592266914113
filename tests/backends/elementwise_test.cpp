#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <facula/facula.h>

#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

using Compute = std::function<Tensor(const Tensor& x, const Tensor& y)>;

/// Operands beyond the caches go by other loops than those that may be in them; each element has
/// the same bits all the same.
void expect_bits_of_pieces(const Compute& compute, DType dtype, const std::string& what) {
  constexpr std::int64_t kPiece = 9973;
  const std::int64_t n = cpu::most_cached_bytes() / 4 + 37;
  manual_seed(3);
  const Tensor x = (rand({n}) * 4 + 0.25).to(dtype), y = (rand({n}) * 4 + 0.25).to(dtype);
  std::vector<Tensor> pieces;
  for (std::int64_t i = 0; i < n; i += kPiece) {
    const std::int64_t count = std::min(kPiece, n - i);
    pieces.push_back(compute(x.narrow(0, i, count).clone(), y.narrow(0, i, count).clone()));
  }
  const std::vector<char> expected = bytes_of(cat(pieces));
  EXPECT_TRUE(bytes_of(compute(x, y)) == expected) << what;
}

TEST(ElementwiseFar, GivesTheBitsOfPieces) {
  const auto all = [](const std::string& name, const Compute& compute) {
    expect_bits_of_pieces(compute, kFloat32, name);
  };
  all("neg", [](const Tensor& x, const Tensor&) { return neg(x); });
  all("exp", [](const Tensor& x, const Tensor&) { return exp(x); });
  all("tanh, in two parts", [](const Tensor& x, const Tensor&) { return tanh(x); });
  all("pow, in three parts", [](const Tensor& x, const Tensor& y) { return pow(x, y); });
  all("erfc, which looks up", [](const Tensor& x, const Tensor&) { return erfc(x); });
  all("add of a repeated element",
      [](const Tensor& x, const Tensor&) { return x + full({1}, 0.1f); });
  all("lt, whose results are bytes", [](const Tensor& x, const Tensor& y) { return x < y; });
  all("where, which reads a mask",
      [](const Tensor& x, const Tensor& y) { return where(x < y, x, y * 3); });
  all("sigmoid in place", [](const Tensor& x, const Tensor&) { return x.clone().sigmoid_(); });
  all("add in place", [](const Tensor& x, const Tensor& y) { return x.clone().add_(y); });
  all("add of a row in place", [](const Tensor& x, const Tensor&) {
    return x.clone().unsqueeze(1).expand({x.numel(), 3}).contiguous().add_(arange(3));
  });
  expect_bits_of_pieces([](const Tensor& x, const Tensor& y) { return x * y; }, kInt64, "int64");
  expect_bits_of_pieces([](const Tensor& x, const Tensor& y) { return x / y; }, kFloat64,
                        "float64");
}

TEST(ElementwiseFar, LossesAddUpEveryTerm) {
  const std::int64_t n = cpu::most_cached_bytes() / 8 + 37;
  const Tensor x = arange(n).remainder(7).to(kFloat32), y = ones({n});
  // In turn 1, 0, 1, 4, 9, 16 and 25.
  const std::int64_t squares[] = {0, 1, 1, 2, 6, 15, 31};
  const auto expected = static_cast<double>(n / 7 * 56 + squares[n % 7]);
  EXPECT_NEAR(mse_loss(x, y, "sum").item<double>() / expected, 1, 1e-7);
}

}  // namespace
}  // namespace facula
