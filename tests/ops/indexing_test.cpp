#include <facula/ops.h>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include <facula/tensor.h>

#include "tests/support/expect.h"

namespace facula {
namespace {

using Values = std::vector<std::int64_t>;

Tensor counted() { return arange(24).reshape({2, 3, 4}); }

Values values(const Tensor& t) { return t.to_vector<std::int64_t>(); }

TEST(ErrorMessages, NameTheOpAndItsOperands) {
  const Tensor x = ones({2, 3}), far = tensor({7}, {1}, kInt64);
  const Tensor grid = tensor({7}, {1, 1}, kInt64);
  EXPECT_ERROR(IndexError, "\n  in index_select(float32 [2, 3], int64 [1])",
               x.index_select(1, far));
  EXPECT_ERROR(IndexError, "\n  in gather(float32 [2, 3], int64 [1, 1])", x.gather(1, grid));
  EXPECT_ERROR(IndexError, "in scatter_add(float32 [2, 3], int64 [1, 1], float32 [1, 1])",
               x.scatter_add(1, grid, ones({1, 1})));
  EXPECT_ERROR(ValueError,
               "conv2d: input is an undefined tensor (a default-constructed handle); give it a "
               "value first\n  in conv2d(undefined, float32 [4, 3, 1, 1]",
               conv2d(Tensor(), ones({4, 3, 1, 1})));
  EXPECT_ERROR(ValueError, "mm: mat2 is an undefined tensor", mm(x, Tensor()));
  EXPECT_ERROR(ValueError, "cat: a tensor of the list is undefined", cat({x, Tensor()}));
  EXPECT_ERROR(DTypeError, "std: not for int64", ones({3}, kInt64).std());
  try {
    mm(ones({2, 3}), ones({2, 3}));
    FAIL() << "nothing was thrown";
  } catch (const ShapeError& error) {  // says everything itself
    EXPECT_EQ(std::string(error.what()).find("\n  in"), std::string::npos) << error.what();
  }
}

TEST(ErrorMessages, NameTheFunctionThatWasCalled) {
  const Tensor x = ones({3}), two = ones({2}), mask = ones({3}, kBool), half = ones({3}, kFloat16);
  const Tensor halves = ones({2, 2}, kFloat16), place = tensor({7}, {1}, kInt64);
  const Tensor deep = zeros({1, 1, 1, 1, 1, 1, 1, 1}), none;
  const std::int64_t many = std::int64_t{1} << 60;
  const struct {
    const char* name;
    std::function<void()> call;
  } calls[] = {
      {"softsign", [&] { softsign(mask); }},
      {"relu6", [&] { relu6(half); }},
      {"relu6", [&] { relu6(ones({3}, kFloat16)); }},
      {"selu", [&] { selu(half); }},
      {"celu", [&] { celu(half); }},
      {"mish", [&] { mish(half); }},
      {"tril", [&] { tril(halves); }},
      {"triu", [&] { triu(halves); }},
      {"outer", [&] { outer(half, half); }},
      {"dot", [&] { dot(half, half); }},
      {"nonzero", [&] { nonzero(half); }},
      {"clamp", [&] { clamp(half, half, none); }},
      {"clamp", [&] { clamp(x, none, two); }},
      {"broadcast_to", [&] { broadcast_to(x, {2}); }},
      {"expand_as", [&] { expand_as(x, two); }},
      {"view_as", [&] { view_as(x, two); }},
      {"reshape_as", [&] { reshape_as(x, two); }},
      {"swapaxes", [&] { swapaxes(x, 0, 1); }},
      {"tile", [&] { tile(x, {-1}); }},
      {"split_with_sizes",
       [&] {
         split_with_sizes(x, {2, 2});
       }},
      {"split_with_sizes", [&] { split_with_sizes(x, {3}, 1); }},
      {"chunk", [&] { chunk(x, 2, 1); }},
      {"stack",
       [&] {
         stack({x, x}, 2);
       }},
      {"stack", [&] { stack({none}); }},
      {"stack", [&] { stack({deep}); }},
      {"take_along_dim", [&] { take_along_dim(x, place); }},
      {"take_along_dim", [&] { take_along_dim(x, place, 0); }},
      {"smooth_l1_loss", [&] { smooth_l1_loss(half, half); }},
      {"smooth_l1_loss", [&] { smooth_l1_loss(half, half, "none"); }},
      {"mse_loss", [&] { mse_loss(half, half); }},
      {"norm", [&] { norm(x, 2, {1}); }},
      {"norm", [&] { norm(x, 0, {1}); }},
      {"norm", [&] { norm(x, INFINITY, {1}); }},
      {"unflatten",
       [&] {
         unflatten(deep, 0, {1, 1});
       }},
      {"unsqueeze", [&] { unsqueeze(deep, 0); }},
      {"add_", [&] { two.add_(x); }},
      {"add_", [&] { half.add_(half); }},
      {"copy_", [&] { zeros({3}, kNull).copy_(x); }},
      {"scatter_", [&] { x.clone().scatter_(0, place, two); }},
      {"uniform_", [&] { leaf({1}).uniform_(); }},
      {"uniform_",
       [&] {
         ones({1, 3}).expand({2, 3}).uniform_();
       }},
      {"normal_", [&] { place.normal_(); }},
      {"empty_like", [&] { empty_like(none); }},
      {"zeros_like", [&] { zeros_like(none); }},
      {"rand_like", [&] { rand_like(none); }},
      {"linspace", [&] { linspace(0, 1, many); }},
      {"arange", [&] { arange(many); }},
  };
  for (const auto& [name, call] : calls) {
    try {
      call();
      ADD_FAILURE() << "nothing was thrown by " << name;
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with(fmt::format("{}: ", name)) ||
                  message.find(fmt::format("\n  in {}(", name)) != std::string::npos)
          << name << ": " << message;
    }
  }
  EXPECT_ERROR(DTypeError, "\n  in softsign(bool [3])", softsign(mask));
}

TEST(Chunk, OfADimensionWithoutEntriesIsEmptyAsOftenAsAsked) {
  for (const Tensor& part : zeros({0, 2}).chunk(3)) EXPECT_EQ(part.sizes().vec(), (Values{0, 2}));
  EXPECT_EQ(zeros({0, 2}).chunk(3).size(), 3u);
  EXPECT_EQ(zeros({3, 0}).chunk(2, -1).size(), 2u);
  EXPECT_EQ(zeros({0, 2}).chunk(3, 1).size(), 2u);
}

TEST(Indexing, IntegersTakeEntries) {
  EXPECT_EQ(values(counted()[1][2]), (Values{20, 21, 22, 23}));
  EXPECT_EQ(values(counted()[-1][0]), (Values{12, 13, 14, 15}));
  EXPECT_EQ(counted().index({1, -1, 2}).item<int>(), 22);
}

TEST(Indexing, SlicesCutLikePython) {
  const Tensor x = counted();
  EXPECT_EQ(x.index({Slice(), Slice(1)}).sizes(), IntList({2, 2, 4}));
  EXPECT_EQ(values(x.index({0, Slice(0, 2), 1})), (Values{1, 5}));
  EXPECT_EQ(values(x.index({0, 0, Slice(std::nullopt, std::nullopt, 2)})), (Values{0, 2}));
  EXPECT_EQ(values(x.index({0, 0, Slice(-3, -1)})), (Values{1, 2}));
  EXPECT_EQ(x.index({0, 0, Slice(2, 1)}).numel(), 0);
  EXPECT_EQ(values(x.index({0, 0, Slice(3, 99)})), (Values{3}));
}

TEST(Indexing, NoneAndEllipsis) {
  const Tensor x = counted();
  EXPECT_EQ(x.index({None, Ellipsis, 1}).sizes(), IntList({1, 2, 3}));
  EXPECT_EQ(x.index({Ellipsis, None}).sizes(), IntList({2, 3, 4, 1}));
  EXPECT_EQ(values(x.index({1, Ellipsis, Slice(0, 1)})), (Values{12, 16, 20}));
  EXPECT_EQ(x.index({Ellipsis}).sizes(), x.sizes());
}

TEST(Indexing, ResultsAreViews) {
  const Tensor x = zeros({3, 4}, kInt64);
  x[1].fill_(7);
  x.index({Slice(), 0}).fill_(9);
  EXPECT_EQ(values(x), (Values{9, 0, 0, 0, 9, 7, 7, 7, 9, 0, 0, 0}));
}

TEST(Indexing, PutWritesAndBroadcasts) {
  const Tensor x = zeros({2, 3}, kInt64);
  const std::uint32_t version = x.version();
  x.index_put_({Slice(), Slice(1)}, tensor({1, 2}, {-1}, kInt64));
  x.index_put_({1, 0}, tensor(5));
  EXPECT_EQ(values(x), (Values{0, 1, 2, 5, 1, 2}));
  EXPECT_GT(x.version(), version);
  const std::vector<Index> last = {1, 2};
  x.index_put_(last, tensor(9));
  EXPECT_EQ(values(x), (Values{0, 1, 2, 5, 1, 9}));
}

TEST(Indexing, AssigningToAnIndexWrites) {
  Tensor x = zeros({2, 3}, kInt64);
  const Tensor same = x, row = tensor({1, 2, 3}, {-1}, kInt64);
  x[0] = row;
  x[1] = row[2];  // a temporary, broadcast
  x.index({Slice(), 1}) = 7;
  EXPECT_EQ(values(same), (Values{1, 7, 3, 3, 7, 3}));
  x = row;  // a variable changes what it stands for
  EXPECT_EQ(values(same), (Values{1, 7, 3, 3, 7, 3}));
  EXPECT_THROW(same[0] = zeros({4}), ShapeError);
}

TEST(Indexing, GradientsReachTheIndexedPart) {
  const Tensor x = ones({2, 3}).requires_grad_();
  (x.index({Slice(), Slice(0, 2)}) * 2).sum().backward();
  x[1][2].backward();
  EXPECT_EQ(values(x.grad()), (Values{2, 2, 0, 2, 2, 1}));
}

TEST(Indexing, SelectionsOfImagesKeepTheLayoutForwardAndBackward) {
  const Tensor planes = randn({2, 9, 5, 4}), pixels = planes.to(kChannelsLast);
  const Tensor index = tensor({3, 0, 0, 2, 3, 1}, {6}, kInt64), seed = randn({2, 9, 5, 6});
  const Tensor result = pixels.index_select(3, index);
  EXPECT_TRUE(result.is_contiguous(kChannelsLast));
  EXPECT_TRUE(equal(result, planes.index_select(3, index)));
  const Tensor sums = zeros({}).expand(planes.sizes()).index_add(3, index, seed.to(kChannelsLast));
  EXPECT_TRUE(sums.is_contiguous(kChannelsLast));
  EXPECT_TRUE(equal(sums, zeros_like(planes).index_add(3, index, seed)));
}

TEST(Indexing, LongLinesAreCutIntoSlices) {
  const Tensor line = arange(50000), backwards = line.flip({0}).to(kInt64);
  EXPECT_TRUE(equal(line.index_select(0, backwards), line.flip({0})));
  EXPECT_TRUE(equal(line.gather(0, backwards), line.flip({0})));
  EXPECT_TRUE(equal(zeros({50000}, line.dtype()).index_add(0, backwards, line), line.flip({0})));
}

TEST(Indexing, EveryIndexIsChecked) {
  const Tensor x = ones({2, 3, 4});
  for (std::int64_t place : {std::int64_t{-1}, std::int64_t{4}}) {
    const Tensor list = tensor({0, static_cast<int>(place), 0}, {3}, kInt64);
    const std::string message = fmt::format("index {} is out of range", place);
    EXPECT_ERROR(IndexError, message, x.index_select(2, list));
    EXPECT_ERROR(IndexError, message, x.index_add(2, list, ones({2, 3, 3})));
    const Tensor grid = list.reshape({1, 1, 3});
    EXPECT_ERROR(IndexError, message, x.gather(2, grid));
    EXPECT_ERROR(IndexError, message, x.scatter(2, grid, ones({1, 1, 3})));
    EXPECT_ERROR(IndexError, message, x.gather(0, grid));
  }
}

template <class F>
std::string index_error(F f) {
  try {
    f();
  } catch (const IndexError& error) {
    return error.what();
  }
  return "no IndexError";
}

TEST(Indexing, ErrorsNameTheIndexAndTheSize) {
  const Tensor x = counted();
  auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos ? "" : text;
  };
  EXPECT_EQ("", contains(index_error([&] { x[2]; }), "index 2 is out of range"));
  EXPECT_EQ("", contains(index_error([&] { x[-3]; }), "[2, 3, 4]"));
  EXPECT_EQ("", contains(index_error([&] { x.index({0, 0, 0, 0}); }), "at most one per dimension"));
  EXPECT_EQ("", contains(index_error([&] { x.index({Ellipsis, Ellipsis}); }), "one Ellipsis"));
  EXPECT_EQ("", contains(index_error([&] { tensor(1)[0]; }), "item()"));
  EXPECT_THROW(x.index({Slice(0, 2, 0)}), ValueError);
  EXPECT_THROW(x.index({Slice(std::nullopt, std::nullopt, -1)}), ValueError);
  EXPECT_THROW(Tensor().index({0}), ValueError);
}

}  // namespace
}  // namespace facula
