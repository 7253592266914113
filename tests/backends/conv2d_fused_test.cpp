// conv2d_fused has the bits of the ops that it stands for, in every implementation that has an
// epilogue of its own and in the one that has none.
#include <limits>
#include <optional>

#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

struct Problem {
  std::int64_t n, c, oc, size, kernel, stride = 1, groups = 1;
  MemoryFormat format = kChannelsLast;

  std::string str() const {
    return fmt::format("input [{}, {}, {}, {}] outputs {} kernel {} stride {} groups {}{}", n, c,
                       size, size, oc, kernel, stride, groups,
                       format == kChannelsLast ? " channels_last" : "");
  }
};

const Problem kProblems[] = {
    {5, 16, 37, 9, 3},         // Winograd with tails
    {16, 40, 200, 8, 3},       // more than one block of outputs
    {8, 64, 64, 48, 3},        // Winograd, past the caches
    {9, 33, 70, 17, 3, 2},     // Winograd in four parts
    {4, 3, 20, 15, 3},         // direct tiles
    {4, 3, 20, 16, 7, 2},      // with few channels and stride
    {33, 32, 48, 8, 1, 2},     // oneDNN in slices
    {6, 12, 24, 9, 3, 1, 4},   // in groups
    {5, 24, 24, 9, 3, 2, 24},  // depthwise
    {40, 48, 64, 2, 3},        // as a dense matrix
    {20, 128, 136, 3, 5},      // tap by tap
    {2, 64, 200, 4, 5},        // in parts of outputs
    {3, 130, 140, 7, 1},       // by the matrix of weights, pixels
    {3, 130, 140, 7, 1, 1, 1, kContiguous},
    {3, 130, 140, 9, 1, 1, 1, kContiguous},  // and planes
    {16, 16, 1, 32, 3},                      // one channel, which is dense in both layouts
    {16, 3, 1, 17, 3},
    {5, 24, 20, 1, 1},                    // one pixel
    {5, 3, 8, 12, 3, 1, 1, kContiguous},  // no epilogue
    {5, 32, 32, 12, 3, 1, 1, kContiguous},
    {8, 16, 1, 80, 3, 1, 1, kContiguous},  // one channel, which is dense in both layouts
    {5, 80, 1, 6, 1, 1, 1, kContiguous},
};

/// What may follow a convolution.
struct Rest {
  bool bias, affine, residual, relu;
  std::optional<double> cap = {};
};
const Rest kRests[] = {{true, true, true, true},    {false, true, false, true},
                       {false, true, false, false}, {true, false, false, true},
                       {true, true, false, false},  {false, false, false, false},
                       {true, true, true, true, 8}, {false, false, false, true, 8}};

class Operands {
 public:
  Operands(Source& source, const Problem& problem)
      : p(problem),
        x(source.values({p.n, p.c, p.size, p.size}, kFloat32, p.format)),
        weight(source.values({p.oc, p.c / p.groups, p.kernel, p.kernel})),
        bias(source.values({p.oc})),
        scale(source.values({p.oc})),
        shift(source.values({p.oc})),
        residual(source.values(convolution({}).sizes())) {}

  Tensor fused(const Rest& r) const {
    return conv2d_fused(x, weight, of(r.bias, bias), of(r.affine, scale), of(r.affine, shift),
                        of(r.residual, residual), r.relu, {p.stride}, padding(), {1}, p.groups,
                        r.cap);
  }
  Tensor parts(const Rest& r) const {
    Tensor y = convolution(of(r.bias, bias));
    if (r.affine) y = channel_affine(y, scale, shift);
    if (r.residual) y = y + residual;
    return r.cap ? hardtanh(y, 0, *r.cap) : r.relu ? relu(y) : y;
  }

  const Problem p;
  Tensor x, weight, bias, scale, shift, residual;

 private:
  Dims padding() const { return {p.kernel / 2}; }
  static Tensor of(bool wanted, const Tensor& tensor) { return wanted ? tensor : Tensor(); }
  Tensor convolution(const Tensor& own_bias) const {
    return conv2d(x, weight, own_bias, {p.stride}, padding(), {1}, p.groups);
  }
};

TEST(FusedConvolution, HasTheBitsOfItsParts) {
  Source source(31);
  for (const Problem& p : kProblems) {
    const Operands operands(source, p);
    for (const Rest& rest : problems(kRests)) {
      const Tensor fused = operands.fused(rest), parts = operands.parts(rest);
      EXPECT_TRUE(bytes_of(fused) == bytes_of(parts))
          << p.str() << (rest.bias ? " bias" : "") << (rest.affine ? " affine" : "")
          << (rest.residual ? " residual" : "") << (rest.relu ? " relu" : "")
          << (rest.cap ? " with a cap" : "");
      EXPECT_TRUE(fused.strides() == parts.strides()) << p.str();
    }
  }
}

TEST(FusedConvolution, RandomProblemsAgreeWithTheReference) {
  Source source(32);
  for (int i = 0; i < problems(60); ++i) {
    const Problem p = {source.integer(1, 6),
                       source.integer(1, 40),
                       source.integer(1, 40),
                       source.integer(3, 20),
                       source.coin() ? 3 : 1,
                       source.integer(1, 2),
                       1,
                       source.coin() ? kChannelsLast : kContiguous};
    const Operands operands(source, p);
    const Rest& rest = kRests[source.integer(0, 5)];  // a cap would hide the size of the terms
    expect_like_reference([&] { return Results{operands.fused(rest)}; }, 1e-5, p.str());
  }
}

TEST(FusedConvolution, IsTheSameOnAnyNumberOfThreads) {
  Source source(33);
  for (const Problem& p : kProblems) {
    const Operands operands(source, p);
    expect_same_bits_on_all_threads([&] { return Results{operands.fused(kRests[0])}; }, p.str());
  }
}

TEST(FusedConvolution, WithoutChannelsIsWhatFollows) {
  Source source(34);
  for (MemoryFormat format : {kChannelsLast, kContiguous}) {
    const Operands operands(source, {2, 0, 5, 6, 3, 1, 1, format});
    expect_close(operands.fused(kRests[0]), operands.parts(kRests[0]), 0, "no channels");
  }
}

// A loss that is NaN must not look healthy one layer later.
TEST(FusedConvolution, ReluKeepsNaN) {
  Source source(35);
  for (const Problem& p : kProblems) {
    Operands operands(source, p);
    const std::int64_t last = p.oc - 1;
    operands.shift.select(0, last).fill_(std::numeric_limits<double>::quiet_NaN());
    const Tensor y = operands.fused(kRests[1]);
    EXPECT_TRUE(all(isnan(y.select(1, last))).item<bool>()) << p.str();
    EXPECT_FALSE(any(isnan(y.narrow(1, 0, last))).item<bool>()) << p.str();
  }
}

}  // namespace
}  // namespace facula
