// Convolutions of few pixels and large weights, as products with the windows of the image.
#include <algorithm>

#include "backends/cpu/convolution.h"
#include "ops/attrs/conv2d.h"
#include "runtime/op_registry.h"
#include "tests/backends/conv2d_problem.h"

namespace facula {
namespace {

using cpu::ByMatrix;

using Problem = Conv2dProblem;

// Channels that leave parts of slices and vectors, single windows, and one tap with strides.
const Problem kProblems[] = {
    {{2, 257, 4, 4}, {120, 257, 3, 3}, {1, 1}, {1, 1}},
    {{1, 128, 9, 8}, {256, 128, 3, 3}, {2, 2}, {1, 1}},
    {{1, 70, 5, 5}, {80, 70, 7, 7}, {1, 1}, {3, 3}},
    {{1, 130, 8, 8}, {230, 130, 3, 3}, {1, 1}, {2, 2}, {2, 2}},
    {{3, 100, 3, 4}, {300, 100, 3, 3}, {1, 1}, {2, 1}},
    {{1, 512, 6, 5}, {520, 512, 1, 1}, {2, 2}, {0, 0}},
    {{1, 33, 4, 4}, {600, 33, 4, 4}, {1, 1}, {0, 0}},
    {{1, 300, 7, 7}, {300, 300, 3, 1}, {3, 2}, {1, 0}},
    {{1, 200, 15, 14}, {350, 200, 2, 2}, {2, 2}, {0, 0}},
};

// Too many windows or taps, too few weights, or groups.
const Problem kOthers[] = {
    {{1, 256, 9, 8}, {256, 256, 3, 3}, {1, 1}, {1, 1}},
    {{5, 256, 4, 4}, {256, 256, 3, 3}, {1, 1}, {1, 1}},
    {{1, 64, 8, 8}, {128, 64, 8, 8}, {1, 1}, {3, 3}},
    {{1, 128, 4, 4}, {128, 128, 3, 3}, {1, 1}, {1, 1}},
    {{1, 256, 9, 8}, {512, 128, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 2},
};

ByMatrix way(const Problem& p, DType dtype = kFloat32) {
  const Tensor x = zeros(p.input, dtype), weight = zeros(p.weight, dtype);
  const Tensor* inputs[] = {&x, &weight};
  const ops::conv2d_attrs attrs{p.stride, p.padding, p.dilation, p.groups};
  Tensor out = zeros(p.output(), dtype);
  const KernelArgs args{{op(OpId::conv2d), inputs, 2, &attrs}, &out, 1};
  return cpu::by_matrix(args, cpu::conv_shape_of(args));
}

/// What computes a convolution of channels_last images.
std::string_view implementation_of(const Problem& p) {
  const Tensor x = zeros(p.input).contiguous(kChannelsLast), weight = zeros(p.weight);
  const Tensor* inputs[] = {&x, &weight};
  const ops::conv2d_attrs attrs{p.stride, p.padding, p.dilation, 1};
  Tensor out = zeros(p.output()).contiguous(kChannelsLast);
  const KernelArgs args{{op(OpId::conv2d), inputs, 2, &attrs}, &out, 1};
  const auto& list = implementations(OpId::conv2d, DeviceType::cpu);
  return std::ranges::find_if(list,
                              [&](const Implementation& i) { return !i.refuse || !i.refuse(args); })
      ->name;
}

TEST(Conv2dWindows, TakesFewWindowsAndLargeWeights) {
  for (const Problem& p : kProblems) {
    EXPECT_EQ(way(p), ByMatrix::windows) << p.str();
    EXPECT_EQ(implementation_of(p), "matrix product") << p.str();
  }
  for (const Problem& p : kOthers) EXPECT_EQ(way(p), ByMatrix::no) << p.str();
  EXPECT_EQ(way(kProblems[1], kFloat64), ByMatrix::no);
}

TEST(Conv2dWindows, AgreesWithTheReference) {
  Source source(91);
  for (const Problem& p : problems(kProblems)) {
    for (MemoryFormat images : {kContiguous, kChannelsLast}) {
      for (MemoryFormat weights : {kContiguous, kChannelsLast}) {
        expect_like_reference(random_conv2d(source, p, images, weights), 4e-6, p.str());
      }
    }
  }
}

TEST(Conv2dWindows, SameBitsOnAllThreads) {
  Source source(92);
  for (const Problem& p : kProblems) {
    const MemoryFormat weights = source.coin() ? kContiguous : kChannelsLast;
    expect_same_bits_on_all_threads(random_conv2d(source, p, kChannelsLast, weights), p.str());
  }
}

TEST(Conv2dWindows, WhatFollowsIsApplied) {
  Source source(93);
  for (const Problem& p : kProblems) {
    const Tensor x = source.values(p.input, kFloat32, kChannelsLast);
    const Tensor weight = source.values(p.weight);
    const Tensor scale = source.values({p.weight[0]}), shift = source.values({p.weight[0]});
    const Tensor residual = source.values(p.output(), kFloat32, kChannelsLast);
    const auto fused = [&] {
      return Results{conv2d_fused(x, weight, {}, scale, shift, residual, true, p.stride, p.padding,
                                  p.dilation, 1)};
    };
    expect_like_reference(fused, 4e-6, p.str());
    expect_same_bits_on_all_threads(fused, p.str());
  }
}

}  // namespace
}  // namespace facula
