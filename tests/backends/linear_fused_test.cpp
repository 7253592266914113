// linear_fused has the bits of linear and the activation that follows it, in every implementation.
#include <limits>
#include <optional>

#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

struct Problem {
  std::int64_t rows, in, out;
  bool transposed = false;  ///< weight is a view of its transpose
  DType dtype = kFloat32;

  std::string str() const {
    return fmt::format("{} rows, {} -> {}{} {}", rows, in, out, transposed ? " transposed" : "",
                       name_of(dtype));
  }
};

const Problem kProblems[] = {
    {1, 784, 512},          // cut by columns
    {9, 1500, 1001},        // the same in parts of the depth
    {130, 1100, 37},        // cut by rows
    {700, 3, 300},          // hardly any depth
    {40, 300, 50, true},    // packed
    {12, 700, 65, true},    // the same by columns
    {2, 30, 1000, true},    // fewer rows than a tile has
    {300, 200, 100, true},  // the library's, by rows
    {33, 500, 700, true},   // the same by columns
    {600, 700, 650},        // the library's though rows meet rows
    {20, 600, 70, false, kFloat64},
    {20, 600, 70, true, kFloat64},
};

struct Activation {
  const char* name;
  std::optional<double> cap = {};
};
const Activation kActivations[] = {{"relu"}, {"relu", 6}, {"gelu"}, {"gelu_tanh"}};

class Operands {
 public:
  Operands(Source& source, const Problem& p)
      : input(source.values({p.rows, p.in}, p.dtype)),
        weight(p.transposed ? source.values({p.in, p.out}, p.dtype).permute({1, 0})
                            : source.values({p.out, p.in}, p.dtype)),
        bias(source.values({p.out}, p.dtype)) {}

  Tensor fused(const Activation& a, bool with_bias = true) const {
    return linear_fused(input, weight, with_bias ? bias : Tensor(), a.name, a.cap);
  }
  Tensor parts(const Activation& a, bool with_bias = true) const {
    const Tensor y = linear(input, weight, with_bias ? bias : Tensor());
    const std::string_view name = a.name;
    if (name == "relu") return a.cap ? hardtanh(y, 0, *a.cap) : relu(y);
    return gelu(y, name == "gelu" ? "none" : "tanh");
  }

  Tensor input, weight, bias;
};

TEST(FusedLinear, HasTheBitsOfItsParts) {
  Source source(41);
  for (const Problem& p : kProblems) {
    const Operands operands(source, p);
    for (const Activation& a : kActivations) {
      for (bool with_bias : {true, false}) {
        EXPECT_TRUE(bytes_of(operands.fused(a, with_bias)) ==
                    bytes_of(operands.parts(a, with_bias)))
            << p.str() << " " << a.name << (a.cap ? " with a cap" : "")
            << (with_bias ? "" : " without bias");
      }
    }
  }
}

TEST(FusedLinear, RandomProblemsAgreeWithTheReference) {
  Source source(42);
  for (int i = 0; i < problems(100); ++i) {
    const Problem p = {source.integer(1, 70), source.integer(1, 200), source.integer(1, 70),
                       source.coin(), source.integer(0, 2) == 0 ? kFloat64 : kFloat32};
    const Operands operands(source, p);
    const Activation& a = kActivations[source.coin() ? 0 : source.integer(2, 3)];
    const bool with_bias = source.coin();
    const double tolerance = p.dtype == kFloat64 ? 1e-13 : 1e-5;
    expect_like_reference([&] { return Results{operands.fused(a, with_bias)}; }, tolerance,
                          p.str() + " " + a.name);
  }
}

TEST(FusedLinear, IsTheSameOnAnyNumberOfThreads) {
  Source source(43);
  for (const Problem& p : kProblems) {
    const Operands operands(source, p);
    expect_same_bits_on_all_threads(
        [&] {
          return Results{operands.fused(kActivations[0]), operands.fused(kActivations[2])};
        },
        p.str());
  }
}

TEST(FusedLinear, AnyNumberOfDimensions) {
  Source source(44);
  const Tensor x = source.values({3, 5, 2, 20}), weight = source.values({7, 20});
  const Tensor y = linear_fused(x, weight, {}, "gelu");
  EXPECT_TRUE(y.sizes() == IntList({3, 5, 2, 7}));
  EXPECT_TRUE(bytes_of(y) == bytes_of(gelu(linear(x, weight))));
}

TEST(FusedLinear, WithoutInputsIsTheActivationOfTheBias) {
  const Tensor bias = tensor({-1.0, 2, 9}, {3});
  const Tensor y = linear_fused(ones({2, 0}), ones({3, 0}), bias, "relu", 6);
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{0, 2, 6, 0, 2, 6}));
  EXPECT_TRUE(linear_fused(ones({0, 4}), ones({3, 4}), bias, "gelu").sizes() == IntList({0, 3}));
}

// A loss that is NaN must not look healthy one layer later.
TEST(FusedLinear, ActivationsKeepNaN) {
  Source source(45);
  for (const Problem& p : kProblems) {
    Operands operands(source, p);
    operands.bias.select(0, 1).fill_(std::numeric_limits<double>::quiet_NaN());
    for (const Activation& a : kActivations) {
      const Tensor y = operands.fused(a);
      EXPECT_TRUE(all(isnan(y.select(1, 1))).item<bool>()) << p.str() << " " << a.name;
      EXPECT_FALSE(any(isnan(y.select(1, 0))).item<bool>()) << p.str() << " " << a.name;
    }
  }
}

}  // namespace
}  // namespace facula
