// Numbers beside integer and bool tensors. What is expected was printed by PyTorch 1.13.
#include <cmath>
#include <limits>

#include <facula/generator.h>
#include <facula/ops.h>

#include "tests/support/expect.h"

namespace facula {
namespace {

const double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

Tensor bytes() { return tensor({0, 128, 255}, {-1}, kUInt8); }
Tensor mask() { return tensor({true, false, true}); }
Tensor other_mask() { return tensor({true, true, false}); }

void expect_like(const Tensor& result, DType dtype, const std::vector<double>& values) {
  EXPECT_EQ(result.dtype(), dtype) << name_of(result.dtype());
  expect_values(result, values, 1e-5);
}

TEST(Numbers, ReachFloatingPointUnharmed) {
  const Tensor u = bytes();
  expect_like(u / 256, kFloat32, {0, 0.5, 0.99609375});
  expect_like(u / 300, kFloat32, {0, 0.426667, 0.85});
  expect_like(u / -1, kFloat32, {0, -128, -255});
  const std::vector<float> inverse = (1000 / u).to_vector<float>();
  EXPECT_EQ(inverse[0], kInfinity);
  EXPECT_NEAR(inverse[1], 7.8125, 1e-6);
  EXPECT_NEAR(inverse[2], 3.921569, 1e-6);
  expect_like(atan2(u, 300), kFloat32, {0, 0.403281, 0.704494});
  const Tensor quotients = tensor({7, -7}, {-1}, kInt32) / 3000000000LL;
  EXPECT_EQ(quotients.dtype(), kFloat32);
  EXPECT_NEAR(quotients.to_vector<double>()[0], 7 / 3e9, 1e-15);
  EXPECT_NEAR(quotients.to_vector<double>()[1], -7 / 3e9, 1e-15);
  expect_like(lerp(tensor({0.0, 10}), tensor({10.0, 20}), 0.5), kFloat32, {5, 15});
}

TEST(Numbers, WrapWhereIntegersAreComputedWith) {
  const Tensor u = bytes();
  expect_like(u + 300, kUInt8, {44, 172, 43});
  expect_like(u - 300, kUInt8, {212, 84, 211});
  expect_like(300 - u, kUInt8, {44, 172, 45});
  expect_like(u * 300, kUInt8, {0, 0, 212});
  expect_like(u + -1, kUInt8, {255, 127, 254});
  expect_like(floor_divide(u, 300), kUInt8, {0, 2, 5});
  expect_like(remainder(u, 300), kUInt8, {0, 40, 35});
  expect_like(u == 256, kBool, {1, 0, 0});
  expect_like(u > -1, kBool, {0, 0, 0});
  expect_like(maximum(u, tensor(300)), kUInt8, {44, 128, 255});
  expect_like(u.clone().add_(300), kUInt8, {44, 172, 43});
}

TEST(Numbers, ThatDoNotFitAreRefusedByOpsThatChoose) {
  const Tensor u = bytes(), m = mask();
  EXPECT_ERROR(ValueError, "where: 300 does not fit uint8, which holds 0 to 255", where(m, u, 300));
  EXPECT_ERROR(ValueError, "where: 300 does not fit uint8", where(m, 300, u));
  EXPECT_ERROR(ValueError, "3000000000 does not fit int32",
               where(m, zeros({3}, kInt32), 3000000000LL));
  EXPECT_ERROR(ValueError, "masked_fill: 300 does not fit uint8", u.masked_fill(m, 300));
  EXPECT_ERROR(ValueError, "masked_fill: 300 does not fit uint8", u.clone().masked_fill_(m, 300));
  EXPECT_ERROR(ValueError, "fill_: 300 does not fit uint8", u.clone().fill_(300));
  EXPECT_ERROR(ValueError, "fill_: -300 does not fit uint8", u.clone().fill_(-300));
  EXPECT_ERROR(ValueError, "fill_: nan does not fit int64", zeros({2}, kInt64).fill_(kNaN));
  EXPECT_ERROR(ValueError, "fill_: 1e+30 does not fit int64", zeros({2}, kInt64).fill_(1e30));
  EXPECT_ERROR(ValueError, "fill_: 9.2233720368547", zeros({2}, kInt64).fill_(0x1p63));
  EXPECT_ERROR(ValueError, "fill_: 1e+300 does not fit float32", zeros({2}).fill_(1e300));
  EXPECT_ERROR(ValueError, "does not fit float16", zeros({2}, kFloat16).fill_(1e6));
  EXPECT_ERROR(ValueError, "full: 300 does not fit uint8", full({2}, 300, kUInt8));
  EXPECT_ERROR(ValueError, "tensor: 300 does not fit uint8", tensor(300, kUInt8));
  EXPECT_ERROR(ValueError, "tensor: 300 does not fit uint8", tensor({300}, {-1}, kUInt8));
  EXPECT_ERROR(ValueError, "tensor: 300 does not fit uint8",
               tensor(std::vector<std::int64_t>{300}, {-1}, kUInt8));
  EXPECT_ERROR(ValueError, "maximum: 300 does not fit uint8", maximum(u, 300));
  EXPECT_ERROR(ValueError, "pow: 300 does not fit uint8", pow(u, 300));
}

TEST(Numbers, ThatFitAreStored) {
  const Tensor u = bytes(), m = mask();
  expect_like(u.masked_fill(m, -1), kUInt8, {255, 128, 255});
  expect_like(u.masked_fill(m, 1.5), kUInt8, {1, 128, 1});
  expect_like(u.clone().masked_fill_(m, 7), kUInt8, {7, 128, 7});
  expect_like(u.clone().fill_(-1), kUInt8, {255, 255, 255});
  expect_like(where(m, u, 1.5), kFloat32, {0, 1.5, 255});
  expect_like(m.clone().fill_(0.5), kBool, {1, 1, 1});
  expect_like(m.masked_fill(other_mask(), 3), kBool, {1, 1, 1});
  expect_like(full({2}, 1.5, kInt32), kInt32, {1, 1});
  EXPECT_EQ(zeros({1}).fill_(kInfinity).item(), kInfinity);
  EXPECT_EQ(zeros({1}, kInt64).fill_((1ll << 53) + 1).item<std::int64_t>(), (1ll << 53) + 1);
}

TEST(Numbers, FillThroughMasksKeepsTheHistory) {
  const Tensor x = leaf({1, 2, 3});
  const Tensor y = x * 2;
  y.masked_fill_(mask(), 9);
  expect_values(y, {9, 4, 9});
  y.sum().backward();
  expect_values(x.grad(), {0, 2, 0});
  EXPECT_ERROR(AutogradError, "leaf", x.masked_fill_(mask(), 9));
}

TEST(Numbers, PowersOfIntegers) {
  const Tensor x = tensor({2, -3, 1, -1, 0});
  EXPECT_ERROR(ValueError, "integers to the negative power -1", pow(x, -1));
  EXPECT_ERROR(ValueError, "integers to the negative power -1", x.clone().pow_(-1));
  EXPECT_ERROR(ValueError, "integers to the negative power -2", pow(mask(), -2));
  expect_like(pow(x, tensor(-1)), kInt64, {0, 0, 1, -1, 0});
  expect_like(pow(2, tensor({2, -3, 1})), kInt64, {4, 0, 2});
  expect_like(pow(x.index({Slice(0, 4)}), -1.0), kFloat32, {0.5, -1.0 / 3, 1, -1});
  expect_like(pow(mask(), 2), kInt64, {1, 0, 1});
}

TEST(Numbers, ArithmeticOfMasks) {
  const Tensor b = mask(), c = other_mask();
  expect_like(b * c, kBool, {1, 0, 0});
  expect_like(b + c, kBool, {1, 1, 1});
  expect_like(b * true, kBool, {1, 0, 1});
  expect_like(maximum(b, c), kBool, {1, 1, 1});
  expect_like(minimum(b, c), kBool, {1, 0, 0});
  expect_like(b + 1, kInt64, {2, 1, 2});
  expect_like(b * 2, kInt64, {2, 0, 2});
  expect_like(b * tensor({1.0, 2, 3}), kFloat32, {1, 0, 3});
  expect_like(b / 2, kFloat32, {0.5, 0, 0.5});
  expect_like(b.sum(), kInt64, {2});
  expect_like(b.clone().mul_(c), kBool, {1, 0, 0});
  expect_like(b.clone().add_(true), kBool, {1, 1, 1});
  EXPECT_ERROR(DTypeError, "^ (logical_xor)", b - c);
  EXPECT_ERROR(DTypeError, "^ (logical_xor)", b - true);
  EXPECT_ERROR(DTypeError, "not supported", -b);
  EXPECT_ERROR(DTypeError, "sub: operand 1 of size [3] is bool", 1 - b);
  EXPECT_ERROR(DTypeError, "sub: operand 0 of size [3] is bool", b - 1);
  EXPECT_ERROR(DTypeError, "sub: operand 1 of size [3] is bool", tensor({1.0, 2, 3}) - b);
  EXPECT_ERROR(DTypeError, "in sub_(float32 [3], bool [3])", tensor({1.0, 2, 3}).sub_(b));
  EXPECT_ERROR(DTypeError, "~ (logical_not), or convert them with to(kFloat32)", b - bytes());
  EXPECT_ERROR(DTypeError, "sub: the number true is bool", ones({2}) - true);
  EXPECT_ERROR(DTypeError, "or write 0 for it", false - tensor({1, 2}));
  // Longer than a vector of any instruction set, and with gaps.
  const Tensor many = remainder(arange(200), 3) == 0, few = remainder(arange(200), 5) == 0;
  expect_equal(many * few, many & few);
  expect_equal(many + few, many | few);
  expect_equal(many.reshape({20, 10}).t() * few.reshape({10, 20}),
               many.reshape({20, 10}).t() & few.reshape({10, 20}));
}

TEST(Numbers, InPlaceResultsDoNotDescend) {
  const Tensor b = mask(), u = bytes();
  EXPECT_ERROR(DTypeError, "add_: a int64 result cannot be written into a bool tensor",
               b.clone().add_(1));
  EXPECT_ERROR(DTypeError, "bool", b.clone().mul_(2.5));
  EXPECT_ERROR(DTypeError, "bool", b.clone().add_(tensor({1, 2, 3})));
  EXPECT_ERROR(DTypeError, "bool", b.clone().add_(tensor({1.0, 2, 3})));
  EXPECT_ERROR(DTypeError, "uint8", u.clone().add_(1.5));
  EXPECT_ERROR(DTypeError, "uint8", u.clone().div_(2));
  EXPECT_ERROR(DTypeError, "uint8", u.clone().pow_(0.5));
  expect_like(u.clone().add_(b), kUInt8, {1, 128, 0});
  expect_like(u.clone().add_(tensor({2, -3, 1})), kUInt8, {2, 125, 0});
  expect_like(tensor({1.0, 2, 3}).add_(b), kFloat32, {2, 2, 4});
}

TEST(Numbers, ClampIntegers) {
  const Tensor x = tensor({2, -3, 1, -1, 0});
  expect_like(clamp(x, 1.5, 3), kFloat32, {2, 1.5, 1.5, 1.5, 1.5});
  expect_like(clamp(x, std::nullopt, 1.5), kFloat32, {1.5, -3, 1, -1, 0});
  expect_like(clamp(x, 1, 2.5), kFloat32, {2, 1, 1, 1, 1});
  expect_like(clamp(x, 1, 3), kInt64, {2, 1, 1, 1, 1});
  expect_like(clamp(x, 3, 1), kInt64, {1, 1, 1, 1, 1});
  expect_like(clamp(bytes(), -1.5, 300.5), kFloat32, {0, 128, 255});
  expect_like(x.clone().clamp_(1, 3), kInt64, {2, 1, 1, 1, 1});
  EXPECT_ERROR(DTypeError, "int64", x.clone().clamp_(1.5));
  expect_like((x * 1).clamp(1.5), kFloat32, {2, 1.5, 1.5, 1.5, 1.5});
  expect_like(clamp(bytes(), -1, 300), kUInt8, {0, 128, 255});
}

TEST(Numbers, ClampMasks) {
  expect_like(clamp(mask(), 0, 1), kInt64, {1, 0, 1});
  expect_like(clamp(mask(), 2), kInt64, {2, 2, 2});
  expect_like(mask().clamp(0.5), kFloat32, {1, 0.5, 1});
  EXPECT_ERROR(DTypeError, "clamp_: a int64 result cannot be written into a bool tensor",
               mask().clamp_(0, 1));
}

TEST(Numbers, ClampBetweenTensors) {
  const Tensor x = tensor({1.0, 2, 3});
  expect_like(x.clamp(tensor({1.0, 1, 1}), tensor(2.0)), kFloat32, {1, 2, 2});
  expect_like(clamp(x, tensor({1.0, 1, 5})), kFloat32, {1, 2, 5});
  expect_like(clamp(x, Tensor(), tensor(2.0)), kFloat32, {1, 2, 2});
  expect_like(clamp(tensor({2, -3}), tensor(1.5), tensor(3)), kFloat32, {2, 1.5});
  for (double value : clamp(x, tensor(kNaN)).to_vector<double>()) EXPECT_TRUE(std::isnan(value));
  EXPECT_TRUE(std::isnan(clamp(tensor({kNaN}), tensor(0.0), tensor(1.0)).item()));
}

TEST(Numbers, RangesOfIntegersAreExact) {
  constexpr std::int64_t kBig = 1ll << 53, kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(arange(kBig + 1, kBig + 3).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{kBig + 1, kBig + 2}));
  EXPECT_EQ(arange(kMost - 1, kMost).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{kMost - 1}));
  EXPECT_EQ(arange(-kMost - 1, kMost, kMost).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{-kMost - 1, -1, kMost - 1}));
  expect_like(arange(5, 0, -2), kInt64, {5, 3, 1});
  expect_like(arange(0, 1, 2), kInt64, {0});
  EXPECT_EQ(arange(3, 3).numel(), 0);
  EXPECT_ERROR(ValueError, "change the step's sign", arange(1, 0));
  EXPECT_ERROR(ValueError, "change the step's sign", arange(0, 1, -10));
  EXPECT_ERROR(ValueError, "to nan in steps of 1 is no finite way", arange(0, kNaN));
  EXPECT_ERROR(ValueError, "is no finite way", arange(0, 5, INFINITY));
  EXPECT_ERROR(ValueError, "from 0 to 1e+30 than int64 can count", arange(0, 1e30));
  EXPECT_ERROR(ValueError, "than int64 can count", arange(-kMost, kMost));
}

TEST(Numbers, RangesInAnIntegerDtypeHaveIntegerSteps) {
  const TensorOptions kInteger(kInt64);
  expect_like(arange(0.5, 3.9, 1, kInteger), kInt64, {0, 1, 2});
  expect_like(arange(-0.5, 4.5, 2.5, kInt32), kInt32, {0, 2});
  expect_like(arange(3., kInteger), kInt64, {0, 1, 2});
  EXPECT_EQ(arange(0x1p53, 0x1p53 + 4, 1, kInteger).to_vector<std::int64_t>()[1], (1ll << 53) + 1);
  EXPECT_ERROR(ValueError, "step 0.5 is 0 as an integer", arange(0, 2, 0.5, kInteger));
  EXPECT_ERROR(ValueError, "arange: 1e+30 does not fit int64", arange(0, 1e30, 1, kInteger));
}

TEST(Numbers, BetweenTwoEndsAreWhatTheStepMakesOfThem) {
  expect_like(linspace(0, 9, 10, kInt64), kInt64, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  expect_like(linspace(1, 0, 4, kInt64), kInt64, {1, 0, 0, 0});
  for (const std::int64_t steps : {2, 7, 50, 101, 1001}) {
    EXPECT_TRUE(linspace(0, static_cast<double>(steps - 1), steps, kInt64).equal(arange(steps)));
    EXPECT_TRUE(linspace(static_cast<double>(steps), 1, steps, kFloat64)
                    .equal(arange(steps, 0, -1).to(kFloat64)));
  }
  expect_values(linspace(5, 6, 1), {5});
  expect_values(linspace(5, 6, 2), {5, 6});
  EXPECT_EQ(linspace(5, 6, 0).numel(), 0);
  EXPECT_ERROR(ValueError, "linspace: 300 does not fit uint8", linspace(0, 300, 3, kUInt8));
}

TEST(Numbers, BeyondInt64AreNone) {
  EXPECT_ERROR(ValueError, "18446744073709551615 as a number", zeros({1}) + ~std::uint64_t{0});
  EXPECT_EQ(tensor(std::uint64_t{1} << 62).item<std::int64_t>(), 1ll << 62);
}

TEST(Numbers, RandomIntegersFitTheirDtype) {
  EXPECT_ERROR(ValueError, "uint8 does not hold all of [0, 300)", randint(0, 300, {3}, kUInt8));
  EXPECT_ERROR(ValueError, "uint8", randint(-1, 3, {3}, kUInt8));
  EXPECT_ERROR(ValueError, "uint8", randint(0, 257, {3}, kUInt8));
  EXPECT_ERROR(ValueError, "bool", randint(0, 3, {3}, kBool));
  EXPECT_ERROR(ValueError, "int32", randint(0, (1ll << 31) + 1, {3}, kInt32));
  EXPECT_ERROR(ValueError, "float16", randint(0, 70000, {3}, kFloat16));
  EXPECT_EQ(randint(0, 256, {3}, kUInt8).dtype(), kUInt8);
  EXPECT_EQ(randint(0, 2, {3}, kBool).dtype(), kBool);
  EXPECT_EQ(randint(0, 1 << 25, {3}, kFloat32).dtype(), kFloat32);
}

TEST(Numbers, RandomIntegersStayInTheirRangeWhereTheDtypeRounds) {
  for (const std::int64_t most : {2049ll, (1ll << 11) + 3, -2051ll}) {
    const Tensor x = randint(most - 4, most + 1, {1000}, kFloat16).to(kFloat64);
    EXPECT_LE(amax(x).item(), static_cast<double>(most));
    EXPECT_GE(amin(x).item(), static_cast<double>(most - 4));
  }
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  EXPECT_LT(amax(randint(kLeast, kLeast + 3, {10}, kFloat32)).item(), -0x1.fp62);
  EXPECT_ERROR(ValueError, "float16 has no number in [2049, 2050)",
               randint(2049, 2050, {3}, kFloat16));
}

TEST(Numbers, ItemsThatAreNoIntegers) {
  EXPECT_ERROR(ValueError, "nan is no integer from -2147483648", tensor(kNaN).item<int>());
  EXPECT_ERROR(ValueError, "float64 value 1e+30", tensor(1e30, kFloat64).item<std::int64_t>());
  EXPECT_ERROR(ValueError, "int64 value 300", tensor(300).item<std::uint8_t>());
  EXPECT_ERROR(ValueError, "-1 is no integer from 0", tensor(-1).item<std::uint64_t>());
  EXPECT_EQ(tensor(-2.75).item<int>(), -2);
  EXPECT_EQ(tensor(255).item<std::uint8_t>(), 255);
  EXPECT_EQ(tensor((1ll << 62) + 1).item<std::uint64_t>(), (1ull << 62) + 1);
  EXPECT_TRUE(tensor(0.5).item<bool>());
  EXPECT_TRUE(std::isnan(tensor(kNaN).item<float>()));
}

TEST(Numbers, VectorsOfBool) {
  EXPECT_EQ(tensor({0.5, 0., -2.}).to_vector<bool>(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(tensor({256, 0}).to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_TRUE(tensor({}).to_vector<bool>().empty());
}

TEST(Numbers, ListsKeepTheirCategory) {
  expect_like(tensor({1, 2, 3}), kInt64, {1, 2, 3});
  expect_like(tensor({true, false}), kBool, {1, 0});
  expect_like(tensor({true, 2}), kInt64, {1, 2});
  expect_like(tensor({1, 2.5}), kFloat32, {1, 2.5});
  expect_like(tensor({1.f, 2.f}), kFloat32, {1, 2});
  expect_like(tensor({5}), kInt64, {5});
  expect_like(tensor({1, 2}, {2, 1}, kFloat64), kFloat64, {1, 2});
  expect_like(tensor({1.5, -2.5}, {-1}, kInt32), kInt32, {1, -2});
  EXPECT_EQ(tensor({}).dtype(), kFloat32);
  constexpr std::int64_t kOdd = (1ll << 53) + 1;
  EXPECT_EQ(tensor({kOdd}).item<std::int64_t>(), kOdd);
  expect_like(tensor(std::vector<float>{0.5f, 2}), kFloat32, {0.5, 2});
  expect_like(tensor(std::vector<double>{0.5, 2}), kFloat32, {0.5, 2});
  EXPECT_EQ(tensor(std::vector<std::int64_t>{kOdd}).item<std::int64_t>(), kOdd);
  expect_like(tensor(std::vector<int>{1, 2}, {2, 1}), kInt64, {1, 2});
  expect_like(tensor(std::vector<std::uint8_t>{7}), kInt64, {7});
  expect_like(tensor(std::vector<bool>{true, false}), kBool, {1, 0});
}

TEST(Numbers, DrawnInPlace) {
  Generator first(3), second(3);
  const Tensor x = empty({1000});
  x.uniform_(2, 4, &first);
  expect_equal(x, rand({1000}, {}, &second) * 2 + 2);
  EXPECT_GE(amin(x).item(), 2);
  EXPECT_LT(amax(x).item(), 4);
  x.normal_(1, 0.5, &first);
  expect_equal(x, randn({1000}, {}, &second) * 0.5 + 1);
  expect_equal(rand_like(x, &first), rand({1000}, {}, &second));
  expect_equal(randn_like(x.to(kFloat64), &first), randn({1000}, kFloat64, &second));
  EXPECT_EQ(empty({2}, kBFloat16).uniform_().dtype(), kBFloat16);
  // Rounding reaches 1 once in 2^9 and 2^12 times.
  for (const DType dtype : {kFloat16, kBFloat16}) {
    EXPECT_LT(amax(rand({1 << 17}, dtype).to(kFloat32)).item(), 1) << name_of(dtype);
  }
  EXPECT_ERROR(ValueError, "[2, 1) is empty", x.uniform_(2, 1));
  EXPECT_ERROR(ValueError, "its width is beyond the largest float32", x.uniform_(-3e38, 3e38));
  EXPECT_ERROR(ValueError, "beyond the largest float32", x.uniform_(0, INFINITY));
  EXPECT_ERROR(ValueError, "beyond the largest float16", empty({2}, kFloat16).uniform_(0, 7e4));
  EXPECT_LT(amax(empty({999}, kFloat16).uniform_(-6e4, 6e4).to(kFloat32)).item(), 60001);
  EXPECT_ERROR(ValueError, "undefined; give it a value first", Tensor().uniform_());
  EXPECT_ERROR(ValueError, "undefined; give it a value first", rand_like(Tensor()));
  EXPECT_ERROR(ValueError, "index: the tensor is undefined; give it",
               Tensor().index({Slice(0, 1)}));
  EXPECT_ERROR(ValueError, "-1, must not be negative", x.normal_(0, -1));
  EXPECT_ERROR(DTypeError, "int64", zeros({2}, kInt64).uniform_());
  EXPECT_ERROR(DTypeError, "int64", rand_like(zeros({2}, kInt64)));
  EXPECT_ERROR(AutogradError, "leaf", leaf({1, 2}).normal_());
}

TEST(Numbers, DrawnLikeATensorHaveItsLayoutButNotItsOrder) {
  for (const Tensor& like :
       {empty({2, 3, 4, 5}).to(kChannelsLast), empty({4, 2, 3}).permute({2, 0, 1}),
        empty({2, 3, 4, 5}).to(kChannelsLast).narrow(1, 1, 2), empty({3, 1}).expand({3, 4}),
        empty({2, 3, 4, 5}, kBFloat16).to(kChannelsLast)}) {
    Generator first(3), second(3);
    for (const auto& [same, other] :
         {std::pair(rand_like(like, &first), rand(like.sizes(), like.dtype(), &second)),
          std::pair(randn_like(like, &first), randn(like.sizes(), like.dtype(), &second))}) {
      expect_equal(same, other);
      EXPECT_EQ(same.strides().vec(), zeros_like(like).strides().vec());
    }
  }
  const Tensor shape = empty({2, 3, 4, 5}, kNull, kChannelsLast);
  EXPECT_EQ(rand_like(shape).strides().vec(), shape.strides().vec());
}

TEST(Numbers, LogarithmsOfProbabilitiesAreAccurateInBothTails) {
  for (const double logit : {20.5, 30.0, 700.0}) {
    const double rest = std::log1p(std::exp(-logit));
    const Tensor x = tensor({logit, -logit}).to(kFloat64).requires_grad_();
    expect_values(logsigmoid(x), {-rest, -logit - rest}, 1e-15 * logit);
    EXPECT_DOUBLE_EQ(logsigmoid(x).to_vector<double>()[0], -rest);
    const Tensor target = tensor({1.0, 1.0}).to(kFloat64);
    expect_equal(binary_cross_entropy_with_logits(x, target, {}, ones({1}, kFloat64), "none"),
                 neg(logsigmoid(x)));
    logsigmoid(x).sum().backward();
    EXPECT_DOUBLE_EQ(x.grad().to_vector<double>()[1], 1 / (1 + std::exp(-logit)));
  }
}

TEST(Numbers, OfNothingHaveNormZero) {
  for (const double p : {2.0, 1.0, 0.0, 3.0, -2.0, kInfinity, -kInfinity}) {
    EXPECT_EQ(zeros({0, 3}).norm(p).item(), 0) << p;
    expect_equal(zeros({0, 3}).norm(p, {0}), zeros({3}));
    expect_equal(zeros({0, 3}).norm(p, {1}, true), zeros({0, 1}));
  }
}

// Where the step of a float32 exceeds what it can be divided by, too.
TEST(Numbers, BeyondFloat16IsInfinity) {
  const std::vector<float> beyond = {65520.0f, 1e6f,    4.15e34f, 4.1538375e34f,
                                     6.4e34f,  8.4e34f, 3e38f};
  for (const float x : beyond) {
    EXPECT_EQ(tensor(std::vector<float>{x, -x}).to(kFloat16).to_vector<float>(),
              (std::vector<float>{INFINITY, -INFINITY}))
        << x;
  }
  EXPECT_EQ(tensor(std::vector<float>{65519.9f}).to(kFloat16).to_vector<float>()[0], 65504);
  EXPECT_EQ(tensor(70000.0, kFloat16).item(), kInfinity);
  EXPECT_EQ(tensor(-1e39).item(), -kInfinity);
  EXPECT_EQ(tensor({-1e39}).item(), -kInfinity);
}

TEST(Numbers, RandomIntegersMayRequireGrad) {
  EXPECT_TRUE(randint(0, 3, {2}, TensorOptions(kFloat32, kCPU, true)).requires_grad());
  EXPECT_ERROR(AutogradError, "int64", randint(0, 3, {2}, TensorOptions(kInt64, kCPU, true)));
}

TEST(Numbers, FactorsOfIntegersWrapLikeProducts) {
  const Tensor u = tensor({10, 200}, {2}, kUInt8), two = tensor({2, 2}, {2}, kUInt8);
  expect_like(addcmul(u, two, two, -3), kUInt8, {254, 188});
  expect_like(addcmul(u, two, two, 300), kUInt8, {186, 120});
  expect_like(addcmul(u, two, two, 0.5), kFloat32, {12, 202});
}

}  // namespace
}  // namespace facula
