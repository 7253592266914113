#include "tuner/selector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <facula/autograd.h>
#include <facula/generator.h>
#include <facula/ops.h>
#include <facula/parallel.h>

#include "base/check.h"
#include "core/tensor_impl.h"

namespace facula::tuner {
namespace {

using backends::cpu::Alternatives;
using std::chrono::milliseconds;

/// How often the implementation for each of these times has run.
int runs_of_slow = 0, runs_of_fast = 0, runs_of_fastest = 0, runs_of_last = 0;
/// In which order: 's', 'f', 'F' or 'l' for each; belongs to the test.
std::string* order = nullptr;

void slow(const KernelArgs&) {
  ++runs_of_slow;
  *order += 's';
  std::this_thread::sleep_for(milliseconds(40));
}
void fast(const KernelArgs&) {
  ++runs_of_fast;
  *order += 'f';
  std::this_thread::sleep_for(milliseconds(2));
}
void fastest(const KernelArgs&) {
  ++runs_of_fastest;
  *order += 'F';
}
void last(const KernelArgs&) {
  ++runs_of_last;
  *order += 'l';
}
void failing(const KernelArgs&) { fail<ValueError>("no memory"); }

Refusal accept(const KernelArgs&) { return nullptr; }
Refusal refuse(const KernelArgs&) { return "too small"; }

class Selection : public ::testing::Test {
 protected:
  Selection() {
    runs_of_slow = runs_of_fast = runs_of_fastest = runs_of_last = 0;
    order = &order_;
  }

  /// Of relu of `n` elements.
  std::size_t select(const std::vector<Implementation>& list, std::int64_t n = 10) {
    return select(selector_, list, n);
  }
  static std::size_t select(MeasuringSelector& selector, const std::vector<Implementation>& list,
                            std::int64_t n = 10) {
    const Tensor input = zeros({n});
    Tensor output = zeros({n});
    const Tensor* inputs[] = {&input};
    const Call call{op(OpId::relu), inputs, 1, nullptr};
    return selector.select(list, KernelArgs{call, &output, 1});
  }
  int runs() const { return runs_of_slow + runs_of_fast + runs_of_fastest + runs_of_last; }

  MeasuringSelector selector_{Alternatives::same_bits};
  std::string order_;
};

TEST_F(Selection, TakesTheFastestWithTheSameBits) {
  const std::vector<Implementation> list = {{"slow", accept, slow, 1},
                                            {"fastest", accept, fastest, 2},
                                            {"fast", accept, fast, 1},
                                            {"last", nullptr, last, 1}};
  EXPECT_EQ(select(list), 2u);
  EXPECT_GE(runs_of_slow, 3);
  EXPECT_GE(runs_of_fast, 3);
  EXPECT_EQ(runs_of_fastest, 0);
  EXPECT_EQ(runs_of_last, 0);
}

// What slows the machine down for a while then meets all candidates.
TEST_F(Selection, TakesSamplesInTurn) {
  select({{"fast", accept, fast, 1}, {"fastest", accept, fastest, 1}, {"last", accept, last, 1}});
  EXPECT_GE(order_.size(), 4 * 3u) << "first calls and three samples or more";
  ASSERT_EQ(order_.size() % 3, 0u) << order_;
  for (std::size_t i = 0; i < order_.size(); i += 3) {
    std::string round = order_.substr(i, 3);
    std::ranges::sort(round);
    EXPECT_EQ(round, "Ffl") << order_;
  }
}

TEST_F(Selection, WithOtherBitsOnlyIfAsked) {
  const std::vector<Implementation> list = {{"slow", accept, slow},
                                            {"fast", accept, fast},
                                            {"fastest", accept, fastest},
                                            {"last", nullptr, last}};
  EXPECT_EQ(select(list), 0u);
  EXPECT_EQ(runs(), 0);
  MeasuringSelector any(Alternatives::any_rounding);
  EXPECT_EQ(select(any, list), 2u);
  EXPECT_EQ(runs_of_last, 0);
}

TEST_F(Selection, RemembersEveryProblem) {
  const std::vector<Implementation> list = {{"slow", accept, slow, 1}, {"fast", accept, fast, 1}};
  EXPECT_EQ(select(list, 10), 1u);
  const int after_first = runs();
  EXPECT_EQ(select(list, 10), 1u);
  EXPECT_EQ(runs(), after_first);
  EXPECT_EQ(select(list, 11), 1u);
  EXPECT_GT(runs(), after_first);
}

TEST_F(Selection, LoadedChoicesNeedNoMeasuring) {
  const std::vector<Implementation> list = {{"slow", accept, slow, 1}, {"fast", accept, fast, 1}};
  EXPECT_EQ(select(list), 1u);
  const int after_first = runs();
  MeasuringSelector other(Alternatives::same_bits);
  other.load_choices(selector_.choices());
  EXPECT_EQ(select(other, list), 1u);
  EXPECT_EQ(runs(), after_first);
  EXPECT_EQ(other.choices(), selector_.choices());
  // One that no longer exists is measured anew.
  other.load_choices(selector_.choices());
  EXPECT_EQ(select(other, {{"old", accept, slow, 1}, {"new", accept, fastest, 1}}), 1u);
  EXPECT_GT(runs(), after_first);
}

TEST_F(Selection, LoadedChoicesOfOtherThreadCountsDecideWhereBitsDependOnThem) {
  const std::vector<Implementation> list = {{"slow", accept, slow}, {"fast", accept, fast}};
  const int threads = get_num_threads();
  MeasuringSelector first(Alternatives::any_rounding), second(Alternatives::any_rounding);
  EXPECT_EQ(select(first, list), 1u);
  auto choices = first.choices();
  ASSERT_EQ(choices.size(), 1u);
  choices.begin()->second = "slow";  // what measuring would not choose
  second.load_choices(choices);
  set_num_threads(threads + 1);
  EXPECT_EQ(select(second, list), 0u);
  EXPECT_EQ(select(second, list, 11), 1u);  // another problem
  set_num_threads(threads);
}

TEST_F(Selection, LoadedChoicesAmongMoreCandidatesDoNotCount) {
  const std::vector<Implementation> two = {{"slow", accept, slow}, {"fast", accept, fast}};
  std::vector<Implementation> three = two;
  three.push_back({"fastest", accept, fastest});
  MeasuringSelector first(Alternatives::any_rounding), second(Alternatives::any_rounding);
  EXPECT_EQ(select(first, three), 2u);
  auto choices = first.choices();
  choices.begin()->second = "slow";
  second.load_choices(choices);
  EXPECT_EQ(select(second, two), 1u);
}

TEST_F(Selection, KeepsTheOrderWhereItIsRight) {
  EXPECT_EQ(select({{"fast", accept, fast, 1}, {"slow", accept, slow, 1}}), 0u);
}

TEST_F(Selection, AsksWhoTakesTheProblem) {
  EXPECT_EQ(select({{"fastest", refuse, fastest, 1},
                    {"slow", accept, slow, 1},
                    {"fastest", refuse, fastest, 1},
                    {"fast", accept, fast, 1}}),
            3u);
  EXPECT_EQ(runs_of_fastest, 0);
  EXPECT_EQ(select({{"slow", refuse, slow, 1}, {"last", nullptr, last}}, 11), 1u);
  // Nobody: the dispatcher says why.
  EXPECT_EQ(select({{"slow", refuse, slow, 1}, {"fast", refuse, fast, 1}}, 12), 2u);
}

TEST_F(Selection, ChoosesAmongWhatIsSwitchedOn) {
  static bool on = true;
  const auto if_on = [](const KernelArgs&) -> Refusal { return on ? nullptr : "switched off"; };
  const std::vector<Implementation> list = {
      {"slow", accept, slow}, {"fastest", if_on, fastest}, {"fast", accept, fast}};
  MeasuringSelector any(Alternatives::any_rounding);
  EXPECT_EQ(select(any, list), 1u);
  on = false;
  EXPECT_EQ(select(any, list), 2u);
  on = true;
  const int measured = runs();
  EXPECT_EQ(select(any, list), 1u);
  EXPECT_EQ(runs(), measured) << "it is known already";
}

TEST_F(Selection, SurvivesFailures) {
  EXPECT_THROW(select({{"failing", accept, failing, 1}, {"fast", accept, fast, 1}}), ValueError);
  EXPECT_EQ(select({{"slow", accept, slow, 1}, {"fast", accept, fast, 1}}), 1u);
  testing::internal::CaptureStderr();
  EXPECT_EQ(
      select({{"slow", accept, slow, 1}, {"bad", accept, failing, 1}, {"fast", accept, fast, 1}},
             30),
      2u);
  const std::string warning = testing::internal::GetCapturedStderr();
  const std::size_t place = warning.find("bad of relu failed and is not used: no memory");
  EXPECT_NE(place, std::string::npos) << warning;
  EXPECT_EQ(warning.find("bad of relu", place + 1), std::string::npos) << "once is enough";
}

TEST_F(Selection, LeavesOutWhatFindsNoMemory) {
  const auto too_large = [](const KernelArgs&) { fail<OutOfMemory>("no room"); };
  EXPECT_EQ(select({{"slow", accept, slow, 1}, {"large", accept, too_large, 1}}), 0u);
  EXPECT_THROW(select({{"large", accept, too_large, 1}, {"slow", accept, slow, 1}}, 20),
               OutOfMemory);
}

/// benchmark() as it was.
struct RestoreBenchmark {
  ~RestoreBenchmark() { backends::cpu::benchmark(false); }
};

void expect_same_bits(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.strides(), b.strides());
  EXPECT_EQ(std::memcmp(a.impl()->data, b.impl()->data, a.nbytes()), 0);
}

/// True if alternatives for a call of the op with such attributes have been measured.
bool was_measured(const std::string& op, const std::string& attributes) {
  const StateDict record = tuning_record();
  for (const auto& [number, choice] : record.dict("choices").entries()) {
    const std::string& problem = choice.get_if<StateDict>()->text("problem");
    if (problem.starts_with(op) && problem.find(attributes) != std::string::npos) return true;
  }
  return false;
}

TEST(Benchmark, ChangesNoBits) {
  const NoGradGuard no_grad;
  const RestoreBenchmark restore;
  EXPECT_FALSE(backends::cpu::benchmark());
  const auto results = [] {
    manual_seed(3);
    std::vector<Tensor> all;
    for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
      for (const std::int64_t stride : {1, 2}) {
        for (const std::int64_t taps : {1, 3}) {
          const Tensor x = randn({3, 32, 31, 32}).contiguous(format);
          const Tensor w = randn({40, 32, taps, taps});
          all.push_back(conv2d(x, w, {}, {stride}));
          const Tensor y = all.back();
          all.push_back(conv2d_backward_input(y, w, x.sizes(), {stride}, {0}, {1}, 1));
          all.push_back(conv2d_backward_weight(y, x, {taps, taps}, {stride}, {0}, {1}, 1));
        }
      }
    }
    all.push_back(matmul(randn({17, 30}), randn({30, 40})));
    return all;
  };
  const std::vector<Tensor> expected = results();
  backends::cpu::benchmark(true);
  EXPECT_TRUE(backends::cpu::benchmark());
  for (int i = 0; i < 2; ++i) {  // measuring, and having measured
    const std::vector<Tensor> actual = results();
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t k = 0; k < actual.size(); ++k) expect_same_bits(actual[k], expected[k]);
  }
  // These have alternatives.
  for (const char* op : {"conv2d ", "conv2d_backward_input "}) {
    for (const char* stride : {"stride=[1, 1]", "stride=[2, 2]"}) {
      EXPECT_TRUE(was_measured(op, stride)) << op << stride;
    }
  }
}

TEST(Benchmark, AnyRoundingStaysAccurate) {
  const NoGradGuard no_grad;
  const RestoreBenchmark restore;
  manual_seed(4);
  const Tensor x = randn({2, 32, 16, 16}).contiguous(kChannelsLast), w = randn({32, 32, 3, 3});
  const Tensor expected = conv2d(x.to(kFloat64), w.to(kFloat64), {}, {1}, {1});
  backends::cpu::benchmark(true, Alternatives::any_rounding);
  for (int i = 0; i < 2; ++i) {
    const Tensor error = abs(conv2d(x, w, {}, {1}, {1}).to(kFloat64) - expected);
    EXPECT_LE(amax(error).item<double>(), 1e-5 * amax(abs(expected)).item<double>());
  }
}

TEST(Benchmark, RecordsWhatIsInForce) {
  const RestoreBenchmark restore;
  EXPECT_EQ(tuning_record().text("alternatives"), "none");
  EXPECT_TRUE(tuning_record().dict("choices").empty());
  backends::cpu::benchmark(true);
  {
    const NoGradGuard no_grad;
    conv2d(randn({2, 32, 12, 12}).contiguous(kChannelsLast), randn({32, 32, 3, 3}), {}, {1}, {1});
  }
  const StateDict record = tuning_record();
  EXPECT_EQ(record.text("alternatives"), "same_bits");
  ASSERT_FALSE(record.dict("choices").empty());
  EXPECT_NE(record.text("choices.0.problem").find("conv2d"), std::string::npos);
  StateDict none;
  none.set("alternatives", "same_bits");
  none.set("choices", StateDict());
  load_tuning_record(none);
  EXPECT_TRUE(tuning_record().dict("choices").empty());
  load_tuning_record(record);
  const StateDict again = tuning_record();
  EXPECT_EQ(again.dict("choices").entries().size(), record.dict("choices").entries().size());
}

TEST(Benchmark, ServesSeveralThreads) {
  const RestoreBenchmark restore;
  backends::cpu::benchmark(true, Alternatives::any_rounding);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      const NoGradGuard no_grad;
      const Tensor w = ones({16, 16, 1, 1});
      for (std::int64_t n = 1; n <= 4; ++n) {
        const Tensor x = full({n, 16, 8, 8}, t + 1.0).contiguous(kChannelsLast);
        EXPECT_EQ(amin(conv2d(x, w)).item<float>(), 16.0f * static_cast<float>(t + 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace facula::tuner
