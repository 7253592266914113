#include <algorithm>

#include "runtime/op_registry.h"
#include "tests/backends/conv2d_problem.h"

#include "ops/attrs/conv2d.h"
#include "ops/attrs/conv2d_backward_input.h"

namespace facula {
namespace {

using Problem = Conv2dProblem;

Problem random_problem(Source& source) {
  for (;;) {
    Problem p;
    p.groups = source.integer(0, 3) == 0 ? source.integer(2, 4) : 1;
    const std::int64_t in = source.integer(1, 10), out = source.integer(1, 10);
    p.input = {source.integer(1, 5), in * p.groups, source.integer(3, 14), source.integer(3, 14)};
    p.weight = {out * p.groups, in, source.integer(1, 4), source.integer(1, 4)};
    p.padding = {source.integer(0, 2), source.integer(0, 2)};
    if (source.integer(0, 2) == 0) p.stride = {source.integer(1, 3), source.integer(1, 3)};
    if (source.integer(0, 3) == 0) p.dilation = {source.integer(1, 2), source.integer(1, 2)};
    bool fits = true;
    for (int d = 0; d < 2; ++d) {
      fits &= p.input[d + 2] + 2 * p.padding[d] >= p.dilation[d] * (p.weight[d + 2] - 1) + 1;
    }
    if (fits) return p;
  }
}

void check_problem(Source& source, const Problem& p, DType dtype, MemoryFormat format) {
  const Tensor x = source.values(p.input, dtype, format);
  const Tensor grad = source.values(p.output(), dtype, format);
  const Tensor weight = source.values(p.weight, dtype, source.coin() ? format : kContiguous);
  const Tensor bias = source.coin() ? source.values({p.weight[0]}, dtype) : Tensor();
  expect_like_reference([&] { return conv2d_and_gradients(p, x, weight, bias, grad); },
                        dtype == kFloat64 ? 1e-12 : 1e-5, p.str());
}

TEST(Conv2d, RandomProblemsAgreeWithTheReference) {
  Source source(1);
  for (int i = 0; i < problems(300); ++i) {
    check_problem(source, random_problem(source), i % 5 == 4 ? kFloat64 : kFloat32,
                  i % 2 ? kChannelsLast : kContiguous);
  }
}

// With AVX2, oneDNN 2.6 writes past its scratchpad there. Lists of free blocks that were written
// over lead astray.
TEST(Conv2d, WeightGradientsOfStridedPointwiseKernelsStayWithinTheirMemory) {
  Source source(7);
  for (const std::int64_t channels : {1, 3, 5, 7, 8}) {
    for (const Dims& stride : {Dims{2, 2}, Dims{3, 1}, Dims{1, 2}}) {
      check_problem(source, {{3, channels, 18, 16}, {64, channels, 1, 1}, stride}, kFloat32,
                    source.coin() ? kChannelsLast : kContiguous);
      std::vector<Tensor> blocks;
      for (std::int64_t i = 0; i < 4000; ++i) blocks.push_back(zeros({1 + i % 1024}, kFloat32));
    }
  }
}

// Batches that are not a multiple of the slices, and channels that are no multiple of a vector.
const Problem kLarger[] = {
    {{4, 3, 32, 32}, {6, 3, 5, 5}},
    {{33, 6, 14, 14}, {16, 6, 5, 5}},
    {{19, 3, 32, 32}, {64, 3, 3, 3}, {1, 1}, {1, 1}},
    {{37, 64, 8, 8}, {64, 64, 3, 3}, {1, 1}, {1, 1}},
    {{18, 64, 8, 8}, {128, 64, 3, 3}, {2, 2}, {1, 1}},
    {{17, 64, 8, 8}, {128, 64, 1, 1}, {2, 2}},
    {{9, 33, 17, 19}, {50, 33, 3, 2}, {1, 2}, {1, 0}},
    {{17, 32, 16, 16}, {32, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 32},
    {{2, 3, 64, 64}, {64, 3, 7, 7}, {2, 2}, {3, 3}},
    {{5, 1, 28, 28}, {32, 1, 3, 3}},
    {{1, 1, 29, 31}, {6, 1, 5, 5}, {1, 1}, {2, 2}},
    {{3, 5, 9, 50}, {50, 5, 3, 4}, {3, 1}, {0, 3}, {2, 1}},
    {{2, 7, 20, 21}, {9, 7, 3, 3}, {1, 2}, {2, 2}, {1, 2}},
    {{2, 20, 12, 12}, {37, 20, 5, 5}},
    {{2, 3, 1, 40}, {11, 3, 1, 5}, {1, 3}, {0, 1}},
    {{3, 40, 9, 14}, {33, 40, 1, 1}, {3, 2}},
    {{2, 3, 9, 13}, {48, 3, 3, 3}},
    {{2, 3, 9, 13}, {116, 3, 3, 3}, {2, 2}, {1, 1}},
    {{2, 4, 5, 5}, {3, 4, 3, 3}, {1, 1}, {4, 4}},  // windows that lie in the padding alone
    // Many channels: tap by tap.
    {{3, 48, 9, 31}, {64, 48, 3, 3}, {1, 1}, {1, 1}, {3, 2}},
    {{2, 50, 37, 16}, {49, 50, 5, 3}, {2, 1}, {2, 0}},
    {{1, 250, 11, 10}, {80, 250, 3, 3}, {3, 2}, {1, 2}},
    {{2, 64, 12, 11}, {70, 64, 2, 2}, {3, 3}, {0, 1}},  // pixels that no tap meets
    {{9, 128, 4, 4}, {132, 128, 5, 5}, {1, 1}, {2, 2}},
    {{40, 130, 5, 3}, {128, 130, 3, 4}, {2, 1}, {2, 3}},
    {{3, 140, 6, 7}, {200, 140, 3, 3}, {1, 1}, {4, 3}, {4, 3}},
    // Few images: threads share the lines of each.
    {{1, 16, 62, 60}, {32, 16, 3, 3}, {2, 2}, {1, 1}},
    {{1, 16, 63, 60}, {32, 16, 3, 3}, {2, 2}, {1, 1}},
    {{1, 16, 62, 60}, {32, 16, 3, 3}, {2, 2}},  // the last row meets no window
    {{2, 32, 40, 37}, {16, 32, 5, 5}, {1, 1}, {2, 2}},
    {{1, 32, 150, 31}, {32, 32, 3, 4}, {3, 1}, {2, 0}, {2, 1}},
    {{3, 16, 80, 130}, {16, 16, 4, 3}, {4, 2}, {3, 1}},
    {{1, 32, 90, 60}, {32, 32, 2, 3}, {3, 1}},
    {{1, 32, 56, 30}, {32, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 2},
    {{1, 32, 30, 30}, {32, 32, 7, 1}, {1, 1}, {6, 0}},
    // Large images of few channels: bands of lines within the caches.
    {{1, 3, 130, 150}, {32, 3, 3, 3}, {1, 1}, {1, 1}},
    {{1, 3, 110, 200}, {33, 3, 3, 3}},
    {{2, 5, 90, 260}, {24, 5, 5, 3}, {1, 1}, {2, 1}, {2, 1}},
    {{1, 6, 300, 170}, {20, 6, 3, 1}, {1, 1}, {1, 0}},
    {{1, 2, 5, 9000}, {18, 2, 3, 3}, {1, 1}, {1, 1}},
};

TEST(Conv2d, ModelLayersAgreeWithTheReference) {
  Source source(2);
  for (const Problem& p : problems(kLarger)) {
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      for (DType dtype : {kFloat32, kFloat64}) check_problem(source, p, dtype, format);
    }
  }
}

TEST(Conv2d, SameBitsOnAllThreads) {
  Source source(3);
  for (const Problem& p : kLarger) {
    for (DType dtype : {kFloat32, kFloat64}) {
      for (MemoryFormat format : {kContiguous, kChannelsLast}) {
        const Tensor x = source.values(p.input, dtype, format);
        const Tensor grad = source.values(p.output(), dtype, format);
        const Tensor weight = source.values(p.weight, dtype);
        const Tensor bias = source.values({p.weight[0]}, dtype);
        expect_same_bits_on_all_threads(
            [&] { return conv2d_and_gradients(p, x, weight, bias, grad); }, p.str());
      }
    }
  }
}

TEST(Conv2d, NoFloat64ProblemIsLeftToTheReference) {
  const Tensor x = zeros({2, 4, 9, 9}, kFloat64), depthwise = zeros({4, 1, 3, 3}, kFloat64);
  const Tensor* inputs[] = {&x, &depthwise};
  const ops::conv2d_attrs attrs{
      .stride = {2, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 4};
  Tensor out = conv2d(x, depthwise, Tensor(), {2, 1}, {1, 1}, {1, 1}, 4);
  const KernelArgs args{{op(OpId::conv2d), inputs, 2, &attrs}, &out, 1};
  for (const Implementation& entry : implementations(OpId::conv2d, DeviceType::cpu)) {
    if (!entry.refuse || !entry.refuse(args)) {
      EXPECT_STREQ(entry.name, "columns");
      return;
    }
  }
}

TEST(Conv2d, ImagesOfLargeBatchesHaveTheBitsOfOne) {
  Source source(7);
  const Tensor image = source.values({1, 3, 16, 18}, kFloat32, kChannelsLast);
  for (const std::int64_t channels : {16, 32, 112}) {
    const Tensor weight = source.values({channels, 3, 3, 3}), bias = source.values({channels});
    const Tensor one = conv2d(image, weight, bias, {1, 1}, {1, 1});
    const std::int64_t count = copies_past_caches(one);
    const Tensor all = conv2d(copies_of(image, count), weight, bias, {1, 1}, {1, 1});
    EXPECT_TRUE(equal(all, one.expand(all.sizes()))) << channels;
  }
}

TEST(Conv2d, StridedGradientsOfLargeBatchesHaveTheBitsOfOne) {
  Source source(8);
  for (const std::int64_t channels : {20, 64}) {
    const Tensor weight = source.values({48, channels, 1, 1});
    const Tensor grad = source.values({1, 48, 8, 9}, kFloat32, kChannelsLast);
    const auto gradient = [&](const Tensor& g) {
      return conv2d_backward_input(g, weight, {g.size(0), channels, 16, 18}, {2, 2});
    };
    const Tensor one = gradient(grad);
    const Tensor all = gradient(copies_of(grad, copies_past_caches(one)));
    EXPECT_TRUE(equal(all, one.expand(all.sizes()))) << channels;
  }
}

TEST(Conv2d, ResultIsChannelsLastIfAnInputIs) {
  Source source(4);
  const Tensor x = source.values({2, 3, 5, 5}), weight = source.values({4, 3, 3, 3});
  EXPECT_TRUE(conv2d(x, weight).is_contiguous());
  EXPECT_TRUE(conv2d(x.contiguous(kChannelsLast), weight).is_contiguous(kChannelsLast));
  EXPECT_TRUE(conv2d(x, weight.contiguous(kChannelsLast)).is_contiguous(kChannelsLast));
  EXPECT_TRUE(conv2d_backward_input(conv2d(x.contiguous(kChannelsLast), weight), weight, x.sizes())
                  .is_contiguous(kChannelsLast));
}

TEST(Conv2d, OneChannelIsChannelsLastIfItsStridesSaySo) {
  Source source(6);
  const Tensor x = source.values({2, 1, 6, 5}), weight = source.values({4, 1, 3, 3});
  EXPECT_TRUE(conv2d(x, weight).is_contiguous());
  EXPECT_TRUE(conv2d(to_copy(x, {}, "channels_last"), weight).is_contiguous(kChannelsLast));
}

TEST(Conv2d, EmptyBatches) {
  for (DType dtype : {kFloat32, kFloat64}) {
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      const Tensor x = zeros({0, 3, 8, 8}, dtype).contiguous(format);
      const Tensor weight = ones({4, 3, 3, 3}, dtype);
      const Tensor y = conv2d(x, weight, ones({4}, dtype));
      EXPECT_TRUE(y.sizes() == IntList({0, 4, 6, 6}));
      EXPECT_TRUE(conv2d_backward_input(y, weight, x.sizes()).sizes() == x.sizes());
      for (double value : conv2d_backward_weight(y, x, {3, 3}).to_vector<double>()) {
        EXPECT_EQ(value, 0);
      }
    }
  }
}

TEST(Conv2d, TransposeUndoesTheShape) {
  Source source(5);
  const Tensor x = source.values({2, 4, 5, 6}), weight = source.values({4, 3, 3, 3});
  const Tensor up = conv_transpose2d(x, weight, {}, {2}, {1}, {1});
  EXPECT_TRUE(up.sizes() == IntList({2, 3, 10, 12}));
  EXPECT_TRUE(conv2d(up, weight, {}, {2}, {1}).sizes() == x.sizes());
}

TEST(Conv2d, ManyChannelsGoTapByTap) {
  ensure_initialized();
  const auto refusal = [](OpId op_id, std::int64_t channels, std::int64_t size,
                          std::int64_t kernel = 3) {
    const Tensor x = zeros({2, channels, size, size}).contiguous(kChannelsLast);
    const Tensor weight = zeros({channels, channels, kernel, kernel});
    const Tensor* inputs[] = {&x, &weight};
    const ops::conv2d_attrs forward{{1, 1}, {1, 1}, {1, 1}, 1};
    const ops::conv2d_backward_input_attrs backward{x.sizes(), {1, 1}, {1, 1}, {1, 1}, 1};
    const bool is_forward = op_id == OpId::conv2d;
    const void* attrs = is_forward ? static_cast<const void*>(&forward) : &backward;
    Tensor out;
    const KernelArgs args{{op(op_id), inputs, 2, attrs}, &out, 1};
    const auto& list = implementations(op_id, DeviceType::cpu);
    const auto entry = std::find_if(list.begin(), list.end(), [](const Implementation& e) {
      return std::string_view(e.name) == "tap by tap";
    });
    return entry == list.end() ? "not registered" : entry->refuse(args);
  };
  for (OpId id : {OpId::conv2d, OpId::conv2d_backward_input}) {
    EXPECT_EQ(refusal(id, 128, 4), nullptr);
    EXPECT_EQ(refusal(id, 48, 8), nullptr);
    EXPECT_STREQ(refusal(id, 47, 8), "few channels");
    EXPECT_EQ(refusal(id, 48, 16, 11), nullptr);
    EXPECT_STREQ(refusal(id, 48, 16, 12), "many taps");
  }
}

// Whichever accepts first computes: behind the library, a kernel of ours would never run.
TEST(Conv2d, OwnKernelsComeBeforeTheLibrary) {
  ensure_initialized();
  for (OpId op : {OpId::conv2d, OpId::conv2d_fused, OpId::conv2d_backward_input,
                  OpId::conv2d_backward_weight}) {
    const auto& list = implementations(op, DeviceType::cpu);
    const auto place = [&](std::string_view name) {
      return std::find_if(list.begin(), list.end(),
                          [&](const Implementation& entry) { return entry.name == name; });
    };
    for (const char* own : {"depthwise", "pointwise", "tap by tap"}) {
      ASSERT_NE(place(own), list.end()) << own;
      EXPECT_LT(place(own), place("oneDNN direct convolution")) << own;
    }
  }
}

// Sums of float32 lose digits where they are long: 33 % in one sum of 25 million.
TEST(Conv2d, WeightGradientsOfLargeImages) {
  const Tensor image = full({1, 3, 600, 500}, 0.3).to(kChannelsLast);
  const Tensor grad = full({1, 16, 600, 500}, 0.3).to(kChannelsLast);
  const Tensor weights = conv2d_backward_weight(grad, image, {3, 3}, {1, 1}, {1, 1});
  const double exact = 600 * 500 * double{0.3f} * double{0.3f};
  EXPECT_LT(std::abs(amax(weights).item() - exact), 1e-4 * exact);
}

// What the library adds up goes to it in bands of lines; some lie in the padding.
TEST(Conv2d, WeightGradientsOfLargeImagesInGroups) {
  const std::int64_t oc = 8;
  for (const Dims& s :
       {Dims{1, 700, 600, 1, 2}, Dims{2, 330, 400, 3, 1}, Dims{1, 3, 30000, 9, 1}}) {
    const Dims stride{s[4], 1}, padding{s[3], 1};
    const std::int64_t oh = (s[1] + 2 * s[3] - 3) / s[4] + 1;
    const Tensor image = full({s[0], 4, s[1], s[2]}, 0.3).to(kChannelsLast);
    const Tensor grad = full({s[0], oc, oh, s[2]}, 0.3).to(kChannelsLast);
    const Tensor weights = conv2d_backward_weight(grad, image, {3, 3}, stride, padding, Dims{1}, 2);
    // Of the tap in the middle: every line of the image meets it, or every second.
    const std::int64_t met = (s[1] + s[4] - 1) / s[4];
    const double exact = static_cast<double>(s[0] * met * s[2]) * double{0.3f} * double{0.3f};
    const Tensor middle = weights.select(3, 1).select(2, 1);
    EXPECT_LT(amax(abs(middle - exact)).item(), 6e-5 * exact) << fmt::format("{}", s);
  }
}

}  // namespace
}  // namespace facula
