// fork() while other threads compute.
#include "tests/process/in_a_child.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include <facula/autograd.h>
#include <facula/backends.h>
#include <facula/nn.h>

#include "base/log.h"

#if defined(FACULA_FORKS_WITH_THREADS)
namespace facula {
namespace {

/// Repeats `work` in a thread of its own.
class Meanwhile {
 public:
  explicit Meanwhile(std::function<void()> work)
      : thread_([this, work = std::move(work)] {
          while (!ended_) {
            work();
            started_ = true;
          }
        }) {
    while (!started_) std::this_thread::yield();
  }
  ~Meanwhile() {
    ended_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> started_ = false, ended_ = false;
  std::thread thread_;
};

struct Model : nn::Module {
  nn::Conv2d conv{*this, "conv", {.in = 16, .out = 16, .kernel = 3, .padding = 1}};
  Tensor forward(const Tensor& x) const override { return conv(x); }
};

// What the other thread is computing is wanted in the child, too: it reads what the child changes.
TEST(Fork, ParametersOfAModelInUseCanBeChanged) {
  const Model model;
  const Tensor images = ones({16, 16, 32, 32});
  const Meanwhile inference([&] {
    const NoGradGuard no_grad;
    model(images);
  });
  for (int i = 0; i < 20; ++i) {
    ::usleep(500 + 211 * i);
    ASSERT_TRUE(in_a_child([&] {
      const NoGradGuard no_grad;
      for (Tensor parameter : model.parameters()) parameter.mul_(0.5);
      return true;
    }));
  }
}

TEST(Fork, ModulesCanBeCopiedWhileOthersAre) {
  const Model model;
  const Meanwhile copies([&] { const Model copy = model; });
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(in_a_child([&] { return nn::clone(model).parameters().size() == 2; })) << i;
  }
}

TEST(Fork, ImplementationsCanBeMeasuredWhileOthersAre) {
  backends::cpu::benchmark(true);
  std::atomic<std::int64_t> side = 8;
  const auto convolve_another_size = [&] {
    const std::int64_t now = 8 + ++side % 400;
    conv2d(ones({1, 1, now, 9}), ones({16, 1, 3, 3}));
  };
  const Meanwhile others(convolve_another_size);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(in_a_child([&] {
      convolve_another_size();
      backends::cpu::benchmark(false);
      return true;
    })) << i;
  }
  backends::cpu::benchmark(false);
}

TEST(Fork, MessagesCanBeLoggedWhileOthersAre) {
  ::testing::internal::CaptureStderr();
  {
    const Meanwhile logging([] { log_warning("one of many messages"); });
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(in_a_child([] {
        log_warning("the child's");
        return true;
      }));
    }
  }
  ::testing::internal::GetCapturedStderr();
}

TEST(Fork, GradientsCanBeComputedWhileOthersAre) {
  const Model model;
  const Tensor images = ones({1, 16, 4, 4});
  const Meanwhile training([&] { model(images).sum().backward(); });
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(in_a_child([&] {
      model(images).sum().backward();
      return model.parameters()[0].grad().defined();
    })) << i;
  }
}

}  // namespace
}  // namespace facula
#endif
