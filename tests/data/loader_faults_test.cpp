// Loaders where threads are refused, kept by others, or read from one epoch together.
#include <facula/data/data_loader.h>

#include <gtest/gtest.h>

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <numeric>
#include <thread>

#include <facula/error.h>
#include <facula/parallel.h>

#include "base/cpu_info.h"
#include "base/log.h"
#include "data/batch_source.h"
#include "data/loader_threads.h"
#include "tests/data/loader_epochs.h"
#include "tests/io/test_files.h"
#include "tests/process/in_a_child.h"

namespace facula::data {
namespace {

using io::expect_error;

/// Sample i is the number i. Reading mostly waits, for which kAuto would like threads.
struct Slow : Dataset {
  std::int64_t size() const override { return 300; }
  Sample get(std::int64_t i) const override {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    return {i};
  }
};

std::vector<std::int64_t> counted(std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  return numbers;
}

void append(std::vector<std::int64_t>& numbers, const Batch& batch) {
  const auto more = batch[0].to_vector<std::int64_t>();
  numbers.insert(numbers.end(), more.begin(), more.end());
}

#if defined(FACULA_FORKS_WITH_THREADS)

/// From now on threads have stacks for which there is no room.
bool refuse_threads() {
  pthread_attr_t attributes;
  return pthread_attr_init(&attributes) == 0 &&
         pthread_attr_setstacksize(&attributes, std::size_t{1} << 60) == 0 &&
         pthread_setattr_default_np(&attributes) == 0;
}

TEST(LoaderFaults, AutomaticLoadersDoWithoutThreadsThatTheSystemRefuses) {
  EXPECT_TRUE(in_a_child([] {
    if (!refuse_threads()) return false;
    testing::internal::CaptureStderr();
    const DataLoader loader(std::make_shared<Slow>(), {.batch_size = 4});
    bool complete = true;
    for (int number = 0; number < 3; ++number) {
      std::vector<std::int64_t> numbers;
      for (const Batch& batch : loader.epoch(number)) append(numbers, batch);
      complete = complete && numbers == counted(300);
    }
    // Tried once, and not again.
    const std::string told = testing::internal::GetCapturedStderr();
    const auto first = told.find("DataLoader: the system gives no thread");
    return complete && first != std::string::npos &&
           told.find("gives no thread", first + 30) == std::string::npos &&
           std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}) == 1;
  }));
}

// It would wait for the thread that it runs on.
TEST(LoaderFaults, LoadersInsideOfOthersSayThatThereIsNoThread) {
  EXPECT_TRUE(in_a_child([] {
    struct Outer : Dataset {
      std::int64_t size() const override { return 1; }
      Sample get(std::int64_t) const override {
        if (!refuse_threads()) return {std::int64_t{0}};
        const DataLoader inner(std::make_shared<Slow>(), {.batch_size = 4, .num_workers = 1});
        std::vector<std::int64_t> numbers;
        for (const Batch& batch : inner.epoch(0)) append(numbers, batch);
        return {std::ssize(numbers)};
      }
    };
    const DataLoader outer(std::make_shared<Outer>(), {.num_workers = 1});
    try {
      Batch batch;
      outer.epoch(0).next(batch);
    } catch (const SampleError& error) {
      return std::string(error.what()).find("the system gives no thread") != std::string::npos;
    }
    return false;
  }));
}

#endif

/// Every sample takes 30 ms; counts those that have begun and ended.
struct Late : Dataset {
  std::int64_t size() const override { return 100; }
  Sample get(std::int64_t i) const override {
    ++begun;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    ++ended;
    return {i};
  }
  mutable std::atomic<int> begun{0}, ended{0};
};

void wait_until(const std::function<bool()>& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now(), limit);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Keeps every thread that comes.
struct Keeping : BackgroundJob {
  bool run_one() noexcept override {
    if (released) return false;
    ++kept;
    released.wait(false);
    return true;
  }
  std::atomic<int> kept{0};
  std::atomic<bool> released{false};
};

TEST(LoaderFaults, TimeoutsHoldWhileOthersKeepAllThreads) {
  // As many as any automatic loader asks for.
  const int threads = 4 * base::usable_cpus();
  const auto keeping = std::make_shared<Keeping>();
  LoaderThreads::instance().serve(keeping, threads, true);
  wait_until([&] { return keeping->kept == threads; });

  const DataLoader loader(std::make_shared<Slow>(), {.batch_size = 4, .timeout = 0.3});
  Epoch epoch = loader.epoch(0);
  std::vector<std::int64_t> numbers;
  Batch batch;
  const auto begin = std::chrono::steady_clock::now();
  expect_error<Error>(
      [&] {
        while (epoch.next(batch)) append(numbers, batch);
      },
      {"no thread has begun", "0.3 s", "num_workers"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));

  LoaderThreads::instance().remove(keeping.get());
  keeping->released = true;
  keeping->released.notify_all();
  while (epoch.next(batch)) append(numbers, batch);
  EXPECT_EQ(numbers, counted(300));
}

TEST(LoaderFaults, TimeoutsHoldFromTheFirstBatchOn) {
  struct Hanging : Dataset {
    std::int64_t size() const override { return 4; }
    Sample get(std::int64_t i) const override {
      if (i == 0) released.wait(false);
      return {i};
    }
    mutable std::atomic<bool> released{false};
  };
  const auto set = std::make_shared<Hanging>();
  Epoch epoch = DataLoader(set, {.timeout = 0.1}).epoch(0);
  Batch batch;
  expect_error<SampleError>([&] { epoch.next(batch); }, {"sample 0", "0.1 s"});
  set->released = true;
  set->released.notify_all();
  std::vector<std::int64_t> numbers;
  while (epoch.next(batch)) append(numbers, batch);
  EXPECT_EQ(numbers, counted(4));
}

TEST(LoaderFaults, ThreadsThatComeBackServeAgain) {
  const auto set = std::make_shared<Late>();
  const DataLoader loader(set, {.num_workers = 2, .timeout = 0.001});
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  std::ptrdiff_t after_first = 0;
  for (int i = 0; i < 6; ++i) {
    const int before = set->begun;
    {
      const Epoch left = loader.epoch(0);
      wait_until([&] { return set->begun > before; });
    }
    wait_until([&] { return set->begun == set->ended; });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (i == 0) after_first = threads();
  }
  EXPECT_LE(threads(), after_first + 1);
}

TEST(LoaderFaults, LoadersThatWereMovedFromWork) {
  DataLoader first(std::make_shared<Slow>(), {.batch_size = 100, .num_workers = 0});
  const DataLoader second = std::move(first);
  EXPECT_EQ(first.size(), 3);  // NOLINT(bugprone-use-after-move): moving copies
  EXPECT_EQ(first.dataset(), second.dataset());
}

TEST(LoaderFaults, DataSetsEndWithTheirLoader) {
  for (int i = 0; i < 300; ++i) {
    auto set = std::make_shared<Slow>();
    const std::weak_ptr<Slow> seen = set;
    {
      const DataLoader loader(std::move(set), {.batch_size = 1, .num_workers = 3});
      Epoch epoch = loader.epoch(0);
      Batch batch;
      ASSERT_TRUE(epoch.next(batch));
    }
    ASSERT_TRUE(seen.expired()) << i;
  }
}

TEST(LoaderFaults, ThreadsMayShareAnEpoch) {
  for (const int workers : {0, 2, kAuto}) {
    const DataLoader loader(std::make_shared<Slow>(), {.batch_size = 4, .num_workers = workers});
    Epoch epoch = loader.epoch(0);
    std::vector<std::int64_t> read[4];
    std::vector<std::thread> threads;
    for (auto& numbers : read) {
      threads.emplace_back([&] {
        for (Batch batch; epoch.next(batch);) {
          append(numbers, batch);
          EXPECT_GE(epoch.state_dict().integer("position"), std::ssize(numbers));
        }
      });
    }
    for (auto& thread : threads) thread.join();
    std::vector<std::int64_t> all;
    for (const auto& numbers : read) {
      EXPECT_TRUE(std::ranges::is_sorted(numbers));
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
    std::ranges::sort(all);
    EXPECT_EQ(all, counted(300)) << workers << " workers";
  }
}

/// Some of the first samples cannot be read; the next, which takes longest, is unlike all others.
struct Uneven : Dataset {
  std::int64_t bad;
  explicit Uneven(std::int64_t bad) : bad(bad) {}
  std::int64_t size() const override { return 40; }
  Sample get(std::int64_t i) const override {
    if (i < bad) throw IoError("broken");
    if (i > bad) return {zeros({2}) + static_cast<double>(i)};
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    Sample sample;
    sample.add("odd", zeros({3}) + static_cast<double>(i));
    return sample;
  }
};

/// No memory holds a batch of these.
struct Huge : Dataset {
  std::int64_t size() const override { return 8; }
  Sample get(std::int64_t) const override { return {zeros({1}).expand({std::int64_t{1} << 50})}; }
  std::string source(std::int64_t i) const override { return "row " + std::to_string(i); }
};

/// Reading takes more memory than there is, once.
template <class E>
struct Hungry : Dataset {
  std::int64_t size() const override { return 8; }
  Sample get(std::int64_t i) const override {
    if (i == 2 && !failed.exchange(true)) throw E();
    return {i};
  }
  mutable std::atomic<bool> failed{false};
};

struct NoRoom : OutOfMemory {
  NoRoom() : OutOfMemory("no room") {}
};

TEST(LoaderFaults, LackOfMemoryIsNotTheSamplesFault) {
  for (const int workers : {0, 2, kAuto}) {
    for (const bool skip : {false, true}) {
      const DataLoaderOptions options{.batch_size = 4, .num_workers = workers, .skip_errors = skip};
      Batch batch;
      const DataLoader huge(std::make_shared<Huge>(), options);
      expect_error<OutOfMemory>([&] { huge.epoch(0).next(batch); },
                                {"(DataLoader: sample 0 (row 0))"});
      const auto goes_on = [&]<class E>(E) {
        const DataLoader loader(std::make_shared<Hungry<E>>(), options);
        Epoch epoch = loader.epoch(0);
        EXPECT_THROW(epoch.next(batch), E) << workers << " workers";
        ASSERT_TRUE(epoch.next(batch));
        EXPECT_EQ(batch[0].to_vector<std::int64_t>(), (std::vector<std::int64_t>{4, 5, 6, 7}));
      };
      goes_on(NoRoom());
      goes_on(std::bad_alloc());
    }
  }
}

TEST(LoaderFaults, StreamsThatLackMemorySaySo) {
  struct Hungry : IterableDataset {
    struct Samples : Stream {
      bool next(Sample&) override { throw NoRoom(); }
    };
    std::unique_ptr<Stream> open(std::int64_t, std::int64_t) const override {
      return std::make_unique<Samples>();
    }
  };
  const DataLoader loader(std::make_shared<Hungry>(), {.num_workers = 1, .skip_errors = true});
  Epoch epoch = loader.epoch(0);
  Batch batch;
  EXPECT_THROW(epoch.next(batch), NoRoom);
  EXPECT_FALSE(epoch.next(batch));
}

struct QuietLog {
  const LogLevel before = log_level();
  QuietLog() { set_log_level(LogLevel::kOff); }
  ~QuietLog() { set_log_level(before); }
};

TEST(LoaderFaults, TheFirstSampleDecidesHoweverManyThreadsMakeABatch) {
  const QuietLog quiet;
  const int before = get_num_threads();
  set_num_threads(4);
  // In the first slice, in a later one, and all but one.
  for (const std::int64_t bad : {0, 1, 10, 38, 39}) {
    const auto set = std::make_shared<Uneven>(bad);
    for (const bool skip : {false, true}) {
      const auto options =
          std::make_shared<const DataLoaderOptions>(DataLoaderOptions{.skip_errors = skip});
      const auto source =
          map_source(set, options, 0, {.indices = counted(40), .begins = {0, 40}}, false);
      for (const bool parallel : {false, true}) {
        Activity activity;
        if (!skip) {
          const std::string named = "sample " + std::to_string(bad == 0 ? 1 : 0) + ":";
          expect_error<SampleError>([&] { source->make(0, parallel, activity); }, {named});
          continue;
        }
        const Made made = source->make(0, parallel, activity);
        ASSERT_TRUE(made.batch.has_value());
        EXPECT_EQ((*made.batch)["odd"].sizes(), IntList({1, 3})) << bad << " of 40 bad";
        EXPECT_EQ((*made.batch)[0].select(1, 0).to_vector<std::int64_t>(),
                  std::vector<std::int64_t>{bad});
      }
    }
  }
  // Nothing is left of a batch.
  const auto options =
      std::make_shared<const DataLoaderOptions>(DataLoaderOptions{.skip_errors = true});
  const auto source = map_source(std::make_shared<Uneven>(40), options, 0,
                                 {.indices = counted(40), .begins = {0, 40}}, false);
  Activity activity;
  EXPECT_FALSE(source->make(0, true, activity).batch.has_value());
  set_num_threads(before);
}

}  // namespace
}  // namespace facula::data
