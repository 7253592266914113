#include <gtest/gtest.h>

#include <facula/tensor.h>

namespace facula {
namespace {

using Values = std::vector<std::int64_t>;

Tensor counted() { return arange(24).reshape({2, 3, 4}); }

Values values(const Tensor& t) { return t.to_vector<std::int64_t>(); }

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
}

TEST(Indexing, GradientsReachTheIndexedPart) {
  const Tensor x = ones({2, 3}).requires_grad_();
  (x.index({Slice(), Slice(0, 2)}) * 2).sum().backward();
  x[1][2].backward();
  EXPECT_EQ(values(x.grad()), (Values{2, 2, 0, 2, 2, 1}));
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
