#include "base/intrusive_ptr.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace facula {
namespace {

struct Counted : RefCounted {
  static inline std::atomic<int> alive{0};
  explicit Counted(int v = 0) : value(v) { ++alive; }
  Counted(const Counted& other) : RefCounted(other), value(other.value) { ++alive; }
  virtual ~Counted() { --alive; }
  int value;
};

struct Derived : Counted {
  Derived() : Counted(5) {}
};

struct Recycled : RefCounted {
  static inline int destroyed = 0;
  static void destroy(Recycled* object) noexcept {
    ++destroyed;
    delete object;
  }
};

TEST(IntrusivePtr, LastOwnerDeletes) {
  {
    IntrusivePtr<Counted> a = make_intrusive<Counted>(3);
    EXPECT_TRUE(a.unique());
    IntrusivePtr<Counted> b = a;
    EXPECT_EQ(a.use_count(), 2);
    EXPECT_FALSE(a.unique());
    a.reset();
    EXPECT_EQ(Counted::alive, 1);
    EXPECT_EQ(b->value, 3);
  }
  EXPECT_EQ(Counted::alive, 0);
}

TEST(IntrusivePtr, MovesAndConvertsWithoutCounting) {
  IntrusivePtr<Derived> derived = make_intrusive<Derived>();
  IntrusivePtr<Counted> base = std::move(derived);
  EXPECT_EQ(derived, nullptr);
  EXPECT_EQ(base.use_count(), 1);
  IntrusivePtr<Counted> moved = std::move(base);
  EXPECT_EQ(moved->value, 5);
  EXPECT_EQ(moved.use_count(), 1);
}

TEST(IntrusivePtr, SelfAssignmentKeepsTheObject) {
  IntrusivePtr<Counted> a = make_intrusive<Counted>(1);
  a = *&a;
  EXPECT_EQ(a.use_count(), 1);
  a = std::move(*&a);
  EXPECT_EQ(a->value, 1);
}

TEST(IntrusivePtr, ReleaseAndAdoptTransferOwnership) {
  IntrusivePtr<Counted> a = make_intrusive<Counted>(1);
  Counted* raw = a.release();
  EXPECT_FALSE(a);
  EXPECT_EQ(Counted::alive, 1);
  IntrusivePtr<Counted> b = IntrusivePtr<Counted>::adopt(raw);
  IntrusivePtr<Counted> c = IntrusivePtr<Counted>::share(raw);
  EXPECT_EQ(c.use_count(), 2);
  EXPECT_EQ(b, c);
}

TEST(IntrusivePtr, UsesTheClassesOwnDestroy) {
  Recycled::destroyed = 0;
  make_intrusive<Recycled>().reset();
  EXPECT_EQ(Recycled::destroyed, 1);
}

TEST(IntrusivePtr, CopyOfAnObjectHasItsOwnCount) {
  IntrusivePtr<Counted> a = make_intrusive<Counted>(1);
  IntrusivePtr<Counted> shared = a;
  Counted copy = *a;
  EXPECT_EQ(copy.ref_count().value(), 1);
}

TEST(IntrusivePtr, ManyThreadsShareOneObject) {
  {
    IntrusivePtr<Counted> object = make_intrusive<Counted>(7);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([copy = object] {
        for (int i = 0; i < 5000; ++i) {
          IntrusivePtr<Counted> another = copy;
          ASSERT_EQ(another->value, 7);
        }
      });
    }
    object.reset();
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(Counted::alive, 0);
}

}  // namespace
}  // namespace facula
