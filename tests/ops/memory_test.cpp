// Which results are copies, and in what layout.
#include <facula/ops.h>

#include <gtest/gtest.h>

#include <facula/autograd.h>

#include "ops/schema/channels.h"
#include "tests/support/expect.h"

namespace facula {
namespace {

TEST(Copies, AreMadeWhereNothingMoves) {
  const auto expect_copy = [](const Tensor& x, const Tensor& result,
                              const std::vector<double>& expected) {
    expect_values(result, expected);
    x.fill_(7);
    expect_values(result, expected);
    result.fill_(9);
    expect_values(x, std::vector<double>(static_cast<std::size_t>(x.numel()), 7));
  };
  const auto fresh = [] { return tensor({1, 2, 3, 4}, {2, 2}, kFloat32); };
  for (const std::int64_t shift : {0, 2, -4}) {
    const Tensor x = fresh();
    expect_copy(x, roll(x, shift, 0), {1, 2, 3, 4});
  }
  for (const char* mode : {"constant", "reflect", "replicate"}) {
    const Tensor x = fresh(), y = fresh();
    expect_copy(x, pad(x, {0, 0}, mode), {1, 2, 3, 4});
    expect_copy(y, pad(y, {}, mode), {1, 2, 3, 4});
  }
  const Tensor x = fresh(), y = fresh(), flat = fresh(), z = tensor({5}, {1}, kFloat32);
  expect_copy(x, roll(x, 4), {1, 2, 3, 4});
  expect_copy(y, repeat_interleave(y, 1, 0), {1, 2, 3, 4});
  expect_copy(flat, repeat_interleave(flat, 1), {1, 2, 3, 4});
  // One entry, however often, is a view with stride 0 to begin with.
  expect_copy(z, repeat_interleave(z, 3, 0), {5, 5, 5});
}

TEST(Copies, OfRepetitionsAreContiguous) {
  for (const Dims& sizes : {Dims{2, 1}, Dims{1, 2}, Dims{1, 1}, Dims{2, 2}}) {
    for (const Dims& repeats : {Dims{2, 3}, Dims{3, 1}, Dims{1, 3}, Dims{1, 1}, Dims{2, 1, 3}}) {
      const Tensor x = arange(1, 1 + sizes[0] * sizes[1]).reshape(sizes);
      for (const Tensor& input : {x, x.t()}) {
        const Tensor result = input.repeat(repeats);
        EXPECT_TRUE(result.is_contiguous()) << input.sizes() << " by " << repeats;
        const auto sum = result.sum().item<std::int64_t>();
        result.add_(1);
        EXPECT_EQ(result.sum().item<std::int64_t>(), sum + result.numel());
      }
    }
  }
}

Tensor image(IntList sizes) {
  Tensor x = arange(1, 1 + Dims(sizes)[1] * Dims(sizes)[2] * Dims(sizes)[3] * Dims(sizes)[0])
                 .reshape(sizes)
                 .to(kFloat32);
  return to_copy(x, std::nullopt, "channels_last");
}

/// Equal values from images in either layout, and the layout that was given.
template <class Function>
void expect_layout_kept(const char* what, IntList sizes, const Function& function) {
  SCOPED_TRACE(testing::Message() << what << " of " << sizes.str());
  const Tensor x = image(sizes), planes = to_copy(x, std::nullopt, "contiguous");
  ASSERT_TRUE(is_channels_last(x));
  ASSERT_FALSE(is_channels_last(planes));
  const Tensor result = function(x), expected = function(planes);
  EXPECT_TRUE(is_channels_last(result));
  EXPECT_FALSE(is_channels_last(expected));
  expect_equal(result, expected);
}

TEST(ChannelsLast, IsKeptWhereOneLayoutIsAsDenseAsTheOther) {
  for (const Dims& sizes : {Dims{2, 1, 4, 6}, Dims{1, 1, 4, 6}, Dims{2, 3, 4, 6}}) {
    expect_layout_kept("flip", sizes, [](const Tensor& x) { return flip(x, {3}); });
    expect_layout_kept("pad", sizes, [](const Tensor& x) { return pad(x, {1, 2, 0, 1}); });
    expect_layout_kept("roll", sizes, [](const Tensor& x) { return roll(x, {1, 2}, {2, 3}); });
    expect_layout_kept("roll by nothing", sizes, [](const Tensor& x) { return roll(x, 0, 2); });
    expect_layout_kept("max_pool2d", sizes, [](const Tensor& x) { return max_pool2d(x, {2}); });
    expect_layout_kept("avg_pool2d", sizes, [](const Tensor& x) { return avg_pool2d(x, {2}); });
    expect_layout_kept("adaptive_avg_pool2d", sizes, [](const Tensor& x) {
      return adaptive_avg_pool2d(x, {2, 3});
    });
    expect_layout_kept("adaptive_avg_pool2d with unequal windows", sizes, [](const Tensor& x) {
      return adaptive_avg_pool2d(x, {3, 4});
    });
    expect_layout_kept("cat", sizes, [](const Tensor& x) { return cat({x, x}, 1); });
    expect_layout_kept("ops of rows", sizes,
                       [](const Tensor& x) { return narrow(x, 2, 1, 3) * 2; });
    expect_layout_kept("ops of columns", sizes,
                       [](const Tensor& x) { return relu(slice(x, 3, 0, 6, 2)); });
    expect_layout_kept("ops of parts and broadcast tensors", sizes,
                       [](const Tensor& x) { return ones({6}) + narrow(x, 2, 0, 2); });
  }
  expect_layout_kept("ops of channels", {2, 3, 4, 6},
                     [](const Tensor& x) { return narrow(x, 1, 1, 2) * narrow(x, 1, 0, 2); });
  const Tensor rgb = image({2, 3, 4, 6}), gray = image({2, 1, 4, 6});
  EXPECT_TRUE(is_channels_last(cat({rgb, gray}, 1)));
  EXPECT_FALSE(is_channels_last(cat({rgb, to_copy(gray, std::nullopt, "contiguous")}, 1)));
}

TEST(ChannelsLast, OfOnePixelIsKeptByPoolingWithPadding) {
  const auto enlarged = [](const Tensor& x) { return avg_pool2d(x, {2}, {1}, {1}); };
  expect_layout_kept("avg_pool2d", {2, 3, 1, 1}, enlarged);
  expect_layout_kept("max_pool2d", {2, 20, 1, 1},
                     [](const Tensor& x) { return max_pool2d(x, {2}, {1}, {1}); });
}

TEST(ChannelsLast, IsThatOfGradientsToo) {
  const auto gradient = [](const auto& function) {
    return [function](const Tensor& image) {
      const Tensor x = image.detach().requires_grad_();
      return autograd::grad({function(x).square().sum()}, {x})[0];
    };
  };
  for (const Dims& sizes : {Dims{2, 1, 4, 6}, Dims{2, 3, 4, 6}}) {
    expect_layout_kept("max_pool2d", sizes,
                       gradient([](const Tensor& x) { return max_pool2d(x, {2}); }));
    expect_layout_kept("avg_pool2d", sizes,
                       gradient([](const Tensor& x) { return avg_pool2d(x, {2}); }));
  }
  expect_layout_kept("max_pool2d of all", {2, 3, 4, 6}, gradient([](const Tensor& x) {
                       return max_pool2d(x, {4, 6});
                     }));
}

}  // namespace
}  // namespace facula
