#include "base/small_vector.h"

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace facula {
namespace {

using Strings = SmallVector<std::string, 2>;

// Long enough that a leak or a double free of one shows under a sanitizer.
std::string text(int i) { return std::string(40, static_cast<char>('a' + i)); }

Strings make(int count) {
  Strings v;
  for (int i = 0; i < count; ++i) v.push_back(text(i));
  return v;
}

TEST(SmallVector, StaysInlineUpToNAndGrowsBeyond) {
  Strings v = make(2);
  EXPECT_TRUE(v.is_inline());
  v.push_back(text(2));
  EXPECT_FALSE(v.is_inline());
  ASSERT_EQ(v.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(v[static_cast<size_t>(i)], text(i));
}

TEST(SmallVector, ConstructsFromCountListAndRange) {
  EXPECT_EQ((SmallVector<int64_t, 4>(3)), (SmallVector<int64_t, 4>{0, 0, 0}));
  EXPECT_EQ((SmallVector<int64_t, 4>(6, 7)), (SmallVector<int64_t, 4>{7, 7, 7, 7, 7, 7}));
  const std::vector<int64_t> source = {1, 2, 3, 4, 5};
  EXPECT_EQ((SmallVector<int64_t, 4>(source)), (SmallVector<int64_t, 4>{1, 2, 3, 4, 5}));
  EXPECT_EQ((SmallVector<int64_t, 4>(source.begin(), source.begin() + 2)),
            (SmallVector<int64_t, 4>{1, 2}));
  EXPECT_EQ((SmallVector<int64_t, 4>(std::span(source).subspan(3))),
            (SmallVector<int64_t, 4>{4, 5}));
}

TEST(SmallVector, ConvertsToSpan) {
  SmallVector<int64_t, 2> v{1, 2, 3};
  std::span<const int64_t> view = v;
  EXPECT_EQ(view.data(), v.data());
  EXPECT_EQ(view.size(), 3u);
}

TEST(SmallVector, CopiesAreIndependent) {
  for (int count : {0, 1, 2, 5}) {
    const Strings original = make(count);
    Strings copy = original;
    EXPECT_EQ(copy, original);
    copy.push_back("more");
    EXPECT_EQ(original, make(count));
    Strings assigned = make(3);
    assigned = original;
    EXPECT_EQ(assigned, original);
    assigned = *&assigned;
    EXPECT_EQ(assigned, original);
  }
}

TEST(SmallVector, MovesLeaveAnEmptyUsableSource) {
  for (int count : {0, 1, 2, 5}) {
    Strings source = make(count);
    Strings target = std::move(source);
    EXPECT_EQ(target, make(count));
    EXPECT_TRUE(source.empty());  // NOLINT(bugprone-use-after-move): that is what is tested
    source.push_back(text(0));
    EXPECT_EQ(source, make(1));
    Strings other = make(4);
    other = std::move(target);
    EXPECT_EQ(other, make(count));
  }
}

TEST(SmallVector, HoldsMoveOnlyElements) {
  SmallVector<std::unique_ptr<int>, 2> v;
  for (int i = 0; i < 9; ++i) v.push_back(std::make_unique<int>(i));
  auto moved = std::move(v);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(*moved[static_cast<size_t>(i)], i);
}

TEST(SmallVector, PushBackOfOwnElementSurvivesGrowth) {
  Strings v = make(2);
  v.push_back(v[0]);
  EXPECT_EQ(v[2], text(0));
  EXPECT_EQ(v[0], text(0));
  v.resize(4);
  ASSERT_EQ(v.capacity(), 4u);
  v.push_back(std::move(v[1]));
  EXPECT_EQ(v[4], text(1));
}

TEST(SmallVector, ResizeShrinksGrowsAndFills) {
  Strings v = make(4);
  v.resize(1);
  EXPECT_EQ(v, make(1));
  v.resize(3, v[0]);
  EXPECT_EQ(v, (Strings{text(0), text(0), text(0)}));
  v.resize(4);
  EXPECT_EQ(v[3], "");
  v.clear();
  EXPECT_TRUE(v.empty());
}

TEST(SmallVector, InsertsAndErases) {
  Strings v{"b", "d"};
  EXPECT_EQ(*v.insert(v.begin(), "a"), "a");
  v.insert(v.begin() + 2, "c");
  v.insert(v.end(), v[0]);
  EXPECT_EQ(v, (Strings{"a", "b", "c", "d", "a"}));
  EXPECT_EQ(*v.erase(v.begin() + 1), "c");
  v.erase(v.begin(), v.begin() + 2);
  EXPECT_EQ(v, (Strings{"d", "a"}));
  EXPECT_EQ(*v.rbegin(), "a");
  v.pop_back();
  EXPECT_EQ(v.back(), "d");
}

TEST(SmallVector, EqualityComparesSizeAndElements) {
  EXPECT_NE((SmallVector<int, 2>{1, 2}), (SmallVector<int, 2>{1, 2, 3}));
  EXPECT_NE((SmallVector<int, 2>{1, 2}), (SmallVector<int, 2>{1, 3}));
}

struct ThrowsOnCopy {
  static inline int alive = 0;
  static inline int copies_left = 0;
  ThrowsOnCopy() { ++alive; }
  ThrowsOnCopy(const ThrowsOnCopy&) {
    if (copies_left-- == 0) throw std::runtime_error("copy");
    ++alive;
  }
  ThrowsOnCopy(ThrowsOnCopy&&) noexcept { ++alive; }
  ~ThrowsOnCopy() { --alive; }
};

TEST(SmallVector, ThrowingCopyLeaksNothing) {
  {
    SmallVector<ThrowsOnCopy, 2> v(5);
    ThrowsOnCopy::copies_left = 3;
    EXPECT_THROW((SmallVector<ThrowsOnCopy, 2>(v)), std::runtime_error);
    EXPECT_EQ(ThrowsOnCopy::alive, 5);
  }
  EXPECT_EQ(ThrowsOnCopy::alive, 0);
}

}  // namespace
}  // namespace facula
