#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include <facula/data/dataset.h>
#include <facula/error.h>

#include "set_files.h"

namespace facula::data {
namespace {

using io::expect_error;

/// Sample i is the number i; counts how often it is read.
struct Counting : Dataset {
  explicit Counting(std::int64_t count) : count(count) {}

  std::int64_t size() const override { return count; }
  Sample get(std::int64_t index) const override {
    ++reads;
    if (index == failing) throw IoError("broken");
    return Sample{index};
  }
  std::string source(std::int64_t index) const override { return "file " + std::to_string(index); }

  std::int64_t count;
  std::int64_t failing = -1;
  mutable std::atomic<int> reads{0};
};

std::vector<std::int64_t> numbers(const Dataset& set) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < set.size(); ++i) {
    values.push_back(std::get<std::int64_t>(set.get(i)[0]));
  }
  return values;
}

TEST(TensorDataset, RowsOfEveryTensor) {
  const Tensor rows = arange(6).reshape({3, 2}), labels = arange(3) * 10;
  const auto set = tensor_dataset({rows, labels});
  EXPECT_EQ(set->size(), 3);
  Sample sample = set->get(1);
  ASSERT_EQ(sample.size(), 2u);
  EXPECT_EQ(std::get<Tensor>(sample[0]).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(std::get<Tensor>(sample[1]).item<std::int64_t>(), 10);
  EXPECT_EQ(std::get<Tensor>(sample[1]).dim(), 0);
  set->load(2, sample);
  EXPECT_EQ(std::get<Tensor>(sample[1]).item<std::int64_t>(), 20);
  EXPECT_THROW(set->get(3), IndexError);
}

TEST(TensorDataset, ChecksItsTensors) {
  expect_error<ShapeError>([] { tensor_dataset({zeros({3, 2}), zeros({2})}); }, {"[2]", "[3, 2]"});
  expect_error<ShapeError>([] { tensor_dataset({tensor(1.0)}); }, {"tensor 0"});
  expect_error<ValueError>([] { tensor_dataset({}); }, {"at least one"});
  expect_error<ValueError>([] { tensor_dataset({zeros({2}), Tensor()}); }, {"tensor 1"});
}

TEST(Concat, SetsOneAfterTheOther) {
  const auto make = [](std::int64_t n) { return std::make_shared<Counting>(n); };
  const auto set = concat({make(2), make(0), make(3)});
  EXPECT_EQ(numbers(*set), (std::vector<std::int64_t>{0, 1, 0, 1, 2}));
  EXPECT_EQ(set->source(1), "file 1");
  EXPECT_EQ(set->source(4), "file 2");
  EXPECT_THROW(set->get(5), IndexError);
  EXPECT_THROW(set->get(-1), IndexError);
  EXPECT_THROW(set->source(5), IndexError);
  expect_error<ValueError>([] { concat({}); }, {"at least one"});
  expect_error<ValueError>([] { concat({nullptr}); }, {"null"});
  expect_error<ValueError>([&] { concat({make(10), make(-5)}); }, {"data set 1", "size is -5"});
  const auto most = make(INT64_MAX - 1);
  expect_error<ValueError>([&] { concat({make(2), most}); }, {"2 samples", "set 1", "2^63 - 1"});
  EXPECT_EQ(concat({make(1), most})->size(), INT64_MAX);
}

TEST(Subset, SamplesInTheGivenOrder) {
  const auto all = std::make_shared<Counting>(5);
  const auto set = subset(all, {4, 0, 4});
  EXPECT_EQ(numbers(*set), (std::vector<std::int64_t>{4, 0, 4}));
  EXPECT_EQ(set->source(0), "file 4");
  EXPECT_EQ(subset(all, {})->size(), 0);
  EXPECT_THROW(set->get(3), IndexError);
  expect_error<IndexError>([&] { subset(all, {0, 5}); }, {"sample 5 of 5"});
  EXPECT_THROW(subset(all, {-1}), IndexError);
}

TEST(RandomSplit, IsAFunctionOfTheSeed) {
  const auto set = std::make_shared<Counting>(100);
  const auto [rest, held_out] = random_split(set, 0.2, 5);
  EXPECT_EQ(rest->size(), 80);
  EXPECT_EQ(held_out->size(), 20);
  const auto in_rest = numbers(*rest), in_part = numbers(*held_out);
  std::set<std::int64_t> all(in_rest.begin(), in_rest.end());
  all.insert(in_part.begin(), in_part.end());
  EXPECT_EQ(all.size(), 100u);
  EXPECT_TRUE(std::ranges::is_sorted(in_rest));
  EXPECT_TRUE(std::ranges::is_sorted(in_part));
  EXPECT_EQ(numbers(*random_split(set, 0.2, 5).second), in_part);
  EXPECT_NE(numbers(*random_split(set, 0.2, 6).second), in_part);
  for (const double fraction : {0.0, 1.0, -0.1, 1.5, 0.001, std::nan("")}) {
    EXPECT_THROW(random_split(set, fraction, 5), ValueError) << fraction;
  }
}

TEST(RandomSplit, IntoPartsOfGivenSizes) {
  const auto set = std::make_shared<Counting>(10);
  const auto parts = random_split(set, std::vector<std::int64_t>{3, 0, 2, 5}, 5);
  ASSERT_EQ(parts.size(), 4u);
  std::vector<std::int64_t> all;
  for (const std::size_t i : {0, 1, 2, 3}) {
    const auto part = numbers(*parts[i]);
    EXPECT_EQ(std::ssize(part), (std::vector<std::int64_t>{3, 0, 2, 5})[i]);
    EXPECT_TRUE(std::ranges::is_sorted(part));
    all.insert(all.end(), part.begin(), part.end());
  }
  std::ranges::sort(all);
  EXPECT_EQ(all, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  const auto split = [&](std::vector<std::int64_t> sizes) { random_split(set, sizes, 5); };
  expect_error<ValueError>([&] { split({3, 8}); }, {"[3, 8]", "10"});
  expect_error<ValueError>([&] { split({3, 6}); }, {"[3, 6]", "10"});
  expect_error<ValueError>([&] { split({11, -1}); }, {"-1 samples"});
  expect_error<ValueError>([&] { split({INT64_MAX, INT64_MAX, 12}); }, {"10"});
}

// A split made by an earlier version comes back.
TEST(RandomSplit, KeepsItsChoice) {
  const auto set = std::make_shared<Counting>(20);
  EXPECT_EQ(numbers(*random_split(set, 0.25, 7).second),
            (std::vector<std::int64_t>{2, 6, 13, 16, 19}));
}

TEST(Combined, LoadReachesTheInnermostSet) {
  const auto images = counting_set(10);
  const auto set = subset(concat({images, images}), {13, 4});
  Sample sample;
  set->load(0, sample);
  const auto* fields = sample.fields().data();
  EXPECT_EQ(label_of(sample), 3);
  set->load(1, sample);
  EXPECT_EQ(sample.fields().data(), fields);
  EXPECT_EQ(label_of(sample), 4);
}

TEST(Cached, ReadsEachSampleOnce) {
  const auto inner = std::make_shared<Counting>(50);
  const auto set = cached(inner);
  EXPECT_EQ(set->size(), 50);
  EXPECT_EQ(set->source(3), "file 3");
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::int64_t i = 0; i < 50; ++i) {
        if (std::get<std::int64_t>(set->get(i)[0]) != i) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(inner->reads, 50);
  EXPECT_THROW(set->get(50), IndexError);
}

TEST(Cached, RefusesSetsWithoutASize) {
  expect_error<ValueError>([] { cached(std::make_shared<Counting>(-3)); }, {"size is -3"});
  EXPECT_EQ(cached(std::make_shared<Counting>(0))->size(), 0);
}

TEST(Cached, FailuresAreTriedAgain) {
  const auto inner = std::make_shared<Counting>(5);
  const auto set = cached(inner);
  inner->failing = 2;
  EXPECT_THROW(set->get(2), IoError);
  EXPECT_THROW(set->get(2), IoError);
  inner->failing = -1;
  EXPECT_EQ(std::get<std::int64_t>(set->get(2)[0]), 2);
  EXPECT_EQ(inner->reads, 3);
}

TEST(Cached, OthersWaitForWhoeverReads) {
  /// Takes its time; the first attempt fails.
  struct Slow : Dataset {
    std::int64_t size() const override { return 1; }
    Sample get(std::int64_t) const override {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (reads++ == 0) throw IoError("broken");
      return Sample{std::int64_t{7}};
    }
    mutable std::atomic<int> reads{0};
  };
  const auto inner = std::make_shared<Slow>();
  const auto set = cached(inner);
  std::atomic<int> good{0}, bad{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      try {
        if (std::get<std::int64_t>(set->get(0)[0]) == 7) ++good;
      } catch (const IoError&) {
        ++bad;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 3);
  EXPECT_EQ(bad, 1);
  EXPECT_EQ(inner->reads, 2);
}

TEST(Cached, StaysAsItWasBeforeTransforms) {
  /// Yields an image that is still to be cropped, a tensor and a float.
  struct Mixed : Dataset {
    std::int64_t size() const override { return 1; }
    Sample get(std::int64_t) const override {
      Image image(arange(12).reshape({1, 3, 4}).to(kUInt8));
      image.crop({1, 1, 2, 2});
      return {{"image", image}, {"x", ones({2})}, {"y", 0.5}};
    }
  };
  const auto set = cached(std::make_shared<Mixed>());
  Sample sample;
  for (int round = 0; round < 3; ++round) {
    set->load(0, sample);
    EXPECT_EQ(pixels_of(sample), (std::vector<std::uint8_t>{5, 6, 9, 10}));
    EXPECT_EQ(std::get<Tensor>(sample["x"]).sum().item(), 2);
    EXPECT_EQ(std::get<double>(sample["y"]), 0.5);
    sample.image().pixels().fill_(0);
    std::get<Tensor>(sample["x"]).fill_(0);
    sample.image().to_float();
  }
}

TEST(Cached, ImagesOfNumbersKeepThem) {
  struct Numbers : Dataset {
    std::int64_t size() const override { return 1; }
    Sample get(std::int64_t) const override {
      Image image(full({1, 1, 2}, 51, kUInt8));
      image.to_float();
      return Sample{image};
    }
  };
  const auto set = cached(std::make_shared<Numbers>());
  for (int round = 0; round < 2; ++round) {
    Sample sample = set->get(0);
    ASSERT_TRUE(sample.image().is_float());
    EXPECT_FLOAT_EQ(sample.tensor(0).to_vector<float>()[1], 0.2f);
  }
}

}  // namespace
}  // namespace facula::data
