#include <csignal>
#include <cstdint>

#include <pthread.h>
#include <sys/time.h>

#include "runtime/mode.h"
#include "runtime/op_registry.h"
#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

/// A [rows, columns] matrix, dense, transposed, a part of a larger one, or with gaps everywhere.
Tensor matrix(Source& source, std::int64_t rows, std::int64_t columns, DType dtype) {
  switch (source.integer(0, 3)) {
    case 0: return source.values({rows, columns}, dtype);
    case 1: return source.values({columns, rows}, dtype).permute({1, 0});
    case 2: {
      const Tensor larger = source.values({rows + 2, columns + 3}, dtype);
      return larger.index({Slice(1, rows + 1), Slice(2, columns + 2)});
    }
    default: {
      const Tensor larger = source.values({rows, columns, 2}, dtype);
      return larger.index({Slice(), Slice(), 1});
    }
  }
}

double tolerance(DType dtype, std::int64_t k) {
  return (dtype == kFloat64 ? 1e-14 : 1e-6) * std::sqrt(static_cast<double>(k) + 1);
}

TEST(Matmul, RandomProblemsAgreeWithTheReference) {
  Source source(1);
  for (int i = 0; i < problems(300); ++i) {
    const DType dtype = i % 3 == 2 ? kFloat64 : kFloat32;
    const std::int64_t largest = i % 10 == 0 ? 300 : 70;
    const std::int64_t m = source.integer(1, largest), n = source.integer(1, largest),
                       k = source.integer(1, largest);
    const Tensor a = matrix(source, m, k, dtype), b = matrix(source, k, n, dtype);
    const std::string what = fmt::format("{}x{}x{} {}", m, n, k, name_of(dtype));
    expect_like_reference([&] { return Results{mm(a, b)}; }, tolerance(dtype, k), "mm " + what);
    const Tensor weight = b.permute({1, 0});
    const Tensor bias = source.coin() ? source.values({n}, dtype) : Tensor();
    expect_like_reference([&] { return Results{linear(a, weight, bias)}; }, tolerance(dtype, k),
                          "linear " + what);
  }
}

TEST(Matmul, RandomBatchesAgreeWithTheReference) {
  Source source(2);
  for (int i = 0; i < problems(60); ++i) {
    const DType dtype = i % 3 == 2 ? kFloat64 : kFloat32;
    const std::int64_t batch = source.integer(1, 9), m = source.integer(1, 40),
                       n = source.integer(1, 40), k = source.integer(1, 40);
    Tensor a = source.values({batch, m, k}, dtype), b = source.values({batch, k, n}, dtype);
    if (source.coin()) a = source.values({batch, k, m}, dtype).permute({0, 2, 1});
    if (source.coin()) b = source.values({k, batch, n}, dtype).permute({1, 0, 2});
    if (source.coin()) b = source.values({1, k, n}, dtype).expand({batch, k, n});
    expect_like_reference([&] { return Results{bmm(a, b)}; }, tolerance(dtype, k),
                          fmt::format("bmm {}x{}x{}x{}", batch, m, n, k));
  }
}

TEST(Matmul, LargeProblemsAgreeWithTheReference) {
  Source source(3);
  const std::int64_t sizes[][3] = {
      {128, 512, 784}, {512, 784, 128}, {64, 128, 2000}, {1, 700, 700},   {700, 1, 700},
      {33, 1200, 129}, {500, 500, 600}, {96, 196, 576},  {160, 160, 160}, {4100, 514, 130}};
  for (const auto& [m, n, k] : problems(sizes)) {
    for (DType dtype : {kFloat32, kFloat64}) {
      const Tensor a = matrix(source, m, k, dtype), b = matrix(source, k, n, dtype);
      expect_like_reference([&] { return Results{mm(a, b)}; }, tolerance(dtype, k),
                            fmt::format("{}x{}x{}", m, n, k));
      const Tensor many = a.expand({3, m, k}), others = b.expand({3, k, n});
      expect_like_reference([&] { return Results{bmm(many, others)}; }, tolerance(dtype, k),
                            fmt::format("3x{}x{}x{}", m, n, k));
    }
  }
}

// Read along its rows, as the product of the vector and the matrix.
TEST(Matmul, OfTransposedMatrixAndVector) {
  Source source(6);
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const auto& [m, k] : {std::pair{1, 5}, {7, 1}, {33, 100}, {2100, 1030}}) {
      const Tensor matrix = source.values({k, m}, dtype).t(), vector = source.values({k}, dtype);
      expect_like_reference([&] { return Results{mv(matrix, vector)}; }, tolerance(dtype, k), "mv");
      const Tensor many = source.values({3, k, m}, dtype).transpose(1, 2);
      const Tensor vectors = source.values({3, k, 1}, dtype);
      expect_like_reference([&] { return Results{bmm(many, vectors)}; }, tolerance(dtype, k),
                            "bmm");
    }
  }
}

// Rows go as columns do otherwise, many together.
TEST(Matmul, OfRowsAndVector) {
  Source source(7);
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const auto& [m, k] : {std::pair{1, 5}, {7, 1}, {5000, 10}, {33, 100}, {70, 3000}}) {
      const Tensor rows = source.values({m, k + 3}, dtype).index({Slice(), Slice(1, k + 1)});
      const Tensor vector = source.values({k}, dtype), apart = source.values({k, 2}, dtype);
      for (const Tensor& x : {vector, apart.select(1, 1)}) {
        expect_like_reference([&] { return Results{mv(rows, x)}; }, tolerance(dtype, k), "mv");
      }
      const Tensor many = source.values({3, m, k}, dtype);
      expect_like_reference([&] { return Results{matmul(many, vector)}; }, tolerance(dtype, k),
                            "matmul");
      expect_same_bits_on_all_threads([&] { return Results{mv(rows, vector)}; }, "mv");
    }
  }
}

// Threads share the rows.
TEST(Matmul, OfFewLongRows) {
  Source source(8);
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const auto& [m, n, k] :
         {std::array<std::int64_t, 3>{1, 1, 300'001}, {10, 1, 60'000}, {5, 7, 20'000}}) {
      const Tensor a = source.values({m, k}, dtype), b = source.values({n, k}, dtype);
      for (const Tensor& bias : {Tensor(), source.values({n}, dtype)}) {
        const auto run = [&] { return Results{linear(a, b, bias), mm(a, b.t())}; };
        const std::string what = fmt::format("{}x{}x{}", m, n, k);
        expect_like_reference(run, tolerance(dtype, k), what);
        expect_same_bits_on_all_threads(run, what);
      }
    }
  }
}

TEST(Matmul, BatchesOfTinyMatrices) {
  Source source(9);
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{3, 1, 3},
                                  {4, 1, 16},
                                  {13, 1, 5},
                                  {7, 1, 0},
                                  {8, 8, 8},
                                  {3, 5, 2}}) {
      const Tensor a = source.values({600, m, k}, dtype), b = source.values({600, n, k}, dtype);
      expect_like_reference([&] { return Results{bmm(a, b.transpose(1, 2))}; }, tolerance(dtype, k),
                            fmt::format("{}x{}x{}", m, n, k));
    }
  }
}

TEST(Matmul, SameBitsOnAllThreads) {
  Source source(4);
  for (DType dtype : {kFloat32, kFloat64}) {
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{32, 120, 400},
                                  {128, 512, 784},
                                  {512, 784, 128},
                                  {300, 70, 1000},
                                  {96, 196, 576},
                                  {7, 900, 900}}) {
      const Tensor a = source.values({m, k}, dtype), b = source.values({n, k}, dtype);
      const Tensor bias = source.values({n}, dtype);
      expect_same_bits_on_all_threads(
          [&] {
            return Results{linear(a, b, bias),
                           mm(a.permute({1, 0}).contiguous().permute({1, 0}), b.permute({1, 0})),
                           bmm(a.expand({3, m, k}), b.t().expand({3, k, n}))};
          },
          fmt::format("{}x{}x{}", m, n, k));
    }
  }
}

TEST(Matmul, EmptyProblems) {
  EXPECT_TRUE(mm(ones({0, 3}), ones({3, 4})).sizes() == IntList({0, 4}));
  for (DType dtype : {kFloat32, kFloat64, kInt32}) {
    const Tensor nothing = mm(ones({2, 0}, dtype), ones({0, 3}, dtype));
    EXPECT_EQ(nothing.to_vector<double>(), std::vector<double>(6, 0.0));
  }
  const Tensor bias = tensor({1.0, 2, 3}, {3});
  EXPECT_EQ(linear(ones({1, 0}), ones({3, 0}), bias).to_vector<double>(),
            (std::vector<double>{1, 2, 3}));
  EXPECT_TRUE(linear(ones({0, 5}), ones({3, 5}), bias).sizes() == IntList({0, 3}));
  EXPECT_TRUE(bmm(ones({0, 2, 5}), ones({0, 5, 3})).sizes() == IntList({0, 2, 3}));
}

TEST(Matmul, IntegersAreExact) {
  const Tensor big = full({2, 2}, std::int64_t{1} << 40);
  const Tensor product = mm(big, tensor({1, 2, 3, 4}, {2, 2}, kInt64));
  EXPECT_EQ(product.dtype(), kInt64);
  EXPECT_EQ(product.to_vector<std::int64_t>()[0], std::int64_t{4} << 40);
  const Tensor many = mm(full({40, 130}, std::int64_t{1} << 40), full({130, 520}, 3, kInt64));
  EXPECT_TRUE(many.equal(full({40, 520}, std::int64_t{390} << 40)));
}

/// Where the stack of the test's thread lies, signals, and those of them with the stack elsewhere.
std::uintptr_t stack_begin, stack_end;
volatile std::sig_atomic_t handled, handled_elsewhere;

// A library that points the stack pointer into memory of its own must not be interrupted: what the
// kernel writes below it would be somebody's data.
TEST(Matmul, SignalHandlersRunOnTheStack) {
  pthread_attr_t attributes;
  void* begin = nullptr;
  std::size_t bytes = 0;
  ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
  ASSERT_EQ(pthread_attr_getstack(&attributes, &begin, &bytes), 0);
  pthread_attr_destroy(&attributes);
  stack_begin = reinterpret_cast<std::uintptr_t>(begin);
  stack_end = stack_begin + bytes;
  handled = 0;
  handled_elsewhere = 0;
  // With an alternate stack nothing is overwritten, should it come to that: only seen.
  std::vector<char> spare(1 << 16);
  const stack_t alternate{.ss_sp = spare.data(), .ss_flags = 0, .ss_size = spare.size()};
  stack_t stack_before;
  sigaltstack(&alternate, &stack_before);
  struct sigaction action {
  }, action_before;
  action.sa_sigaction = [](int, siginfo_t*, void* context) {
    const auto* state = static_cast<const ucontext_t*>(context);
    const auto stack = static_cast<std::uintptr_t>(state->uc_mcontext.gregs[REG_RSP]);
    handled = handled + 1;
    if (stack < stack_begin || stack >= stack_end) handled_elsewhere = handled_elsewhere + 1;
  };
  action.sa_flags = SA_RESTART | SA_ONSTACK | SA_SIGINFO;
  sigaction(SIGALRM, &action, &action_before);
  const itimerval often{{0, 200}, {0, 200}}, never{};
  setitimer(ITIMER_REAL, &often, nullptr);
  for (const auto& [m, k, n] : {std::array{64, 512, 512}, {512, 603, 784}, {603, 784, 512}}) {
    const Tensor a = ones({m, k}), b = ones({k, n}), transposed = ones({k, m}).t();
    for (int i = 0; i < (kSanitized ? 2 : 100); ++i) {
      EXPECT_EQ(mm(a, b)[0][0].item(), k);
      EXPECT_EQ(mm(transposed, b)[0][0].item(), k);
    }
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &action_before, nullptr);
  sigaltstack(&stack_before, nullptr);
  EXPECT_GT(handled, 0);
  EXPECT_EQ(handled_elsewhere, 0);
}

// What the share of the peak in verbose mode refers to.
TEST(Peak, IsThatOfTheThreadsInUse) {
  register_peak(DeviceType::null, [] { return 100.0 * get_num_threads(); });
  const ThreadsGuard restored;
  for (int threads : {2, 1, 2}) {
    set_num_threads(threads);
    EXPECT_EQ(peak_gflops(DeviceType::null), 100 * threads);
  }
}

TEST(Peak, VerboseModeTellsNoShareOfItForIntegers) {
  const auto said_of = [](DType dtype) {
    const Tensor x = ones({8, 8}, dtype);
    testing::internal::CaptureStderr();
    {
      const runtime::ModeGuard verbose(runtime::kVerbose);
      mm(x, x).numel();
    }
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_NE(said_of(kFloat64).find(" % of peak"), std::string::npos);
  EXPECT_NE(said_of(kInt64).find(" GFLOP/s"), std::string::npos);
  EXPECT_EQ(said_of(kInt64).find("of peak"), std::string::npos);
}

}  // namespace
}  // namespace facula
