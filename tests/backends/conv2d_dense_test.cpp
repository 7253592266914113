#include "ops/attrs/conv2d.h"
#include "runtime/op_registry.h"
#include "tests/backends/conv2d_problem.h"

namespace facula {
namespace {

using Problem = Conv2dProblem;

// Images so small that nearly all of their pixels meet.
const Problem kProblems[] = {
    {{33, 33, 2, 2}, {40, 33, 3, 3}, {1, 1}, {1, 1}},
    {{32, 64, 2, 2}, {32, 64, 3, 3}, {1, 1}, {1, 1}},
    {{40, 48, 3, 1}, {35, 48, 3, 3}, {1, 1}, {1, 1}},
    {{32, 32, 1, 1}, {48, 32, 3, 3}, {1, 1}, {1, 1}},
    {{35, 40, 3, 3}, {32, 40, 3, 3}, {1, 1}, {0, 0}},
    {{32, 32, 4, 4}, {34, 32, 4, 4}, {1, 1}, {0, 0}},
    {{34, 32, 2, 2}, {32, 32, 3, 2}, {1, 1}, {1, 1}, {1, 2}},
    {{34, 36, 3, 2}, {32, 36, 3, 3}, {2, 2}, {1, 1}},
};

Refusal refusal(const Problem& p, std::int64_t groups = 1, DType dtype = kFloat32) {
  const Tensor x = zeros(p.input, dtype), weight = zeros(p.weight, dtype);
  const Tensor* inputs[] = {&x, &weight};
  const ops::conv2d_attrs attrs{p.stride, p.padding, p.dilation, groups};
  Tensor out;
  const KernelArgs args{{op(OpId::conv2d), inputs, 2, &attrs}, &out, 1};
  for (const Implementation& entry : implementations(OpId::conv2d, DeviceType::cpu)) {
    if (std::string_view(entry.name) == "dense matrix") return entry.refuse(args);
  }
  return "not registered";
}

TEST(Conv2dDense, AgreesWithTheReference) {
  Source source(41);
  for (const Problem& p : kProblems) {
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      expect_like_reference(random_conv2d(source, p, format, format), 4e-6, p.str());
    }
  }
}

TEST(Conv2dDense, SameBitsOnAllThreads) {
  Source source(42);
  for (const Problem& p : kProblems) {
    expect_same_bits_on_all_threads(random_conv2d(source, p, kChannelsLast, kChannelsLast),
                                    p.str());
  }
}

TEST(Conv2dDense, TakesTinyImagesOnly) {
  for (const Problem& p : kProblems) EXPECT_EQ(refusal(p), nullptr) << p.str();
  const Problem& usual = kProblems[1];
  EXPECT_STREQ(refusal(usual, 1, kFloat64), "only float32");
  EXPECT_STREQ(refusal({{32, 64, 2, 2}, {32, 32, 3, 3}, {1, 1}, {1, 1}}, 2), "groups");
  EXPECT_STREQ(refusal({{32, 64, 2, 2}, {32, 64, 1, 1}, {1, 1}, {1, 1}}), "a matrix product");
  EXPECT_STREQ(refusal({{32, 64, 3, 2}, {32, 64, 3, 3}, {1, 1}, {1, 1}}), "too many pixels");
  EXPECT_STREQ(refusal({{31, 64, 2, 2}, {32, 64, 3, 3}, {1, 1}, {1, 1}}), "few images");
  EXPECT_STREQ(refusal({{32, 31, 2, 2}, {32, 31, 3, 3}, {1, 1}, {1, 1}}), "few channels");
  EXPECT_STREQ(refusal({{32, 32, 2, 2}, {32, 32, 2, 2}, {2, 2}, {1, 1}}),
               "most pixels do not meet");
}

}  // namespace
}  // namespace facula
