// argsort, argtopk and what is made of them, compared with a stable sort of positions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <facula/ops.h>
#include <facula/parallel.h>

namespace facula {
namespace {

using Positions = std::vector<std::int64_t>;

/// Whether a stands before b in ascending order: NaN last, -0 beside 0.
template <class T>
bool before(T a, T b) {
  return a < b || (a == a && b != b);
}

template <class T>
Positions expected_order(const std::vector<T>& line, bool descending) {
  Positions order(line.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    const T a = line[static_cast<std::size_t>(i)], b = line[static_cast<std::size_t>(j)];
    return descending ? before<T>(b, a) : before<T>(a, b);
  });
  return order;
}

/// Numbers that are hard to order, and among them random ones, many of which are equal.
template <class T>
std::vector<T> hard_values(std::int64_t n, std::mt19937_64& engine) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> special = {Limits::lowest(), Limits::max(), T(0), T(1)};
  if constexpr (std::is_floating_point_v<T>) {
    const T nan = Limits::quiet_NaN(), infinity = Limits::infinity();
    for (T x : {nan, -nan, infinity, -infinity, -T(0), Limits::denorm_min(), -Limits::denorm_min()})
      special.push_back(x);
  }
  std::vector<T> values;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint64_t bits = engine();
    const auto number = static_cast<std::int64_t>(engine());
    if (bits % 8 == 0) {
      values.push_back(special[bits / 8 % special.size()]);
    } else if (bits % 8 < 4) {
      values.push_back(static_cast<T>(number % 50));
    } else {
      const std::int64_t shorter = number / (std::int64_t{1} << bits / 8 % 60);
      values.push_back(static_cast<T>(shorter));
    }
  }
  return values;
}

/// The lines of `values` [outer, n, inner] along its middle dimension.
template <class T>
void expect_order_of_lines(const Tensor& values) {
  const std::int64_t n = values.size(1);
  const Tensor dense = values.transpose(1, 2).contiguous();
  const T* x = dense.data_ptr<T>();
  for (bool descending : {false, true}) {
    const Tensor all = values.argsort(1, descending).transpose(1, 2).contiguous();
    std::vector<Tensor> firsts;
    for (std::int64_t k : Positions{0, 1, n / 9, n / 8, n / 8 + 1, n / 2, n}) {
      if (k > n) continue;
      const Tensor indices = values.argtopk(k, 1, descending);
      EXPECT_EQ(indices.sizes(), IntList({values.size(0), k, values.size(2)}));
      firsts.push_back(indices.transpose(1, 2).contiguous());
    }
    for (std::int64_t line = 0; line < values.size(0) * values.size(2); ++line) {
      const std::vector<T> own(x + line * n, x + (line + 1) * n);
      const Positions expected = expected_order(own, descending);
      const auto* order = all.data_ptr<std::int64_t>() + line * n;
      ASSERT_EQ(Positions(order, order + n), expected) << "line " << line;
      for (const Tensor& first : firsts) {
        const std::int64_t k = first.size(2);
        const auto* places = first.data_ptr<std::int64_t>() + line * k;
        ASSERT_EQ(Positions(places, places + k), Positions(expected.begin(), expected.begin() + k))
            << "line " << line << ", k " << k;
      }
    }
  }
}

template <class T>
class Order : public testing::Test {};
using Types = testing::Types<float, double, std::int32_t, std::int64_t, std::uint8_t, bool>;
TYPED_TEST_SUITE(Order, Types);

TYPED_TEST(Order, IsThatOfAStableSort) {
  using T = TypeParam;
  std::mt19937_64 engine(1);
  for (const Dims& sizes :
       {Dims{3, 1, 1}, Dims{2, 9, 1}, Dims{2, 64, 1}, Dims{1, 65, 3}, Dims{2, 255, 1},
        Dims{1, 256, 18}, Dims{2, 1000, 1}, Dims{1, 5000, 3}, Dims{70, 3, 40}}) {
    SCOPED_TRACE(IntList(sizes).str());
    const std::vector<T> values = hard_values<T>(sizes[0] * sizes[1] * sizes[2], engine);
    const Tensor x = empty(sizes, dtype_of<T>);
    std::copy(values.begin(), values.end(), x.data_ptr<T>());
    expect_order_of_lines<T>(x);
    expect_order_of_lines<T>(x.transpose(1, 2).contiguous().transpose(1, 2));
    expect_order_of_lines<T>(x.slice(1, 0, std::nullopt, 2));
    expect_order_of_lines<T>(x.select(0, 0).unsqueeze(0).expand({3, sizes[1], sizes[2]}));
  }
}

TYPED_TEST(Order, OfLinesThatAreInOrderAlready) {
  using T = TypeParam;
  const Tensor x = arange(3000).to(dtype_of<T>).reshape({1, 3000, 1});
  expect_order_of_lines<T>(x);
  expect_order_of_lines<T>(x.flip({1}));
  expect_order_of_lines<T>(zeros_like(x));
}

TEST(TopK, TakesElementsWithTheirBits) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = tensor({0., -0., nan, 3., -0., 3., -nan}, {7}, kFloat32);
  const auto [greatest, places] = topk(x, 5);
  EXPECT_EQ(places.to_vector<std::int64_t>(), (Positions{2, 6, 3, 5, 0}));
  EXPECT_TRUE(std::isnan(greatest[0].item<float>()));
  EXPECT_EQ(greatest[3].item<float>(), 3);
  const auto [least, last] = topk(x, 4, 0, false);
  EXPECT_EQ(last.to_vector<std::int64_t>(), (Positions{0, 1, 4, 3}));
  EXPECT_TRUE(std::signbit(least[1].item<float>()));
  const auto [values, order] = sort(x);
  EXPECT_EQ(order.to_vector<std::int64_t>(), (Positions{0, 1, 4, 3, 5, 2, 6}));
}

TEST(TopK, OfEmptyLines) {
  const auto [values, places] = topk(zeros({3, 0, 2}), 0, 1);
  EXPECT_EQ(values.sizes(), IntList({3, 0, 2}));
  EXPECT_EQ(places.sizes(), IntList({3, 0, 2}));
  EXPECT_EQ(std::get<0>(topk(zeros({0, 5}), 2)).sizes(), IntList({0, 2}));
  EXPECT_EQ(argsort(zeros({3, 0})).sizes(), IntList({3, 0}));
}

TEST(TopK, DoesNotDependOnTheNumberOfThreads) {
  const Tensor x = randn({40, 3000}).contiguous();
  const int threads = get_num_threads();
  const Tensor several = argtopk(x, 7), all = argsort(x);
  set_num_threads(1);
  EXPECT_TRUE(equal(argtopk(x, 7), several));
  EXPECT_TRUE(equal(argsort(x), all));
  set_num_threads(threads);
}

}  // namespace
}  // namespace facula
