// Expected texts are what PyTorch 1.13 prints for the same tensors.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include <facula/tensor.h>

namespace facula {
namespace {

const double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

TEST(Printing, FloatsShareOneStyle) {
  EXPECT_EQ(tensor({1.0, 2, 3}).str(), "tensor([1., 2., 3.])");
  EXPECT_EQ(tensor({1.5, -2.25, kNaN, kInfinity}).str(),
            "tensor([ 1.5000, -2.2500,     nan,     inf])");
  EXPECT_EQ(tensor({1e-6, 1}).str(), "tensor([1.0000e-06, 1.0000e+00])");
  EXPECT_EQ(tensor({1000, 1, 0, -0.0}).str(), "tensor([1000.,    1.,    0.,   -0.])");
  EXPECT_EQ(tensor({1e5, 1, -kInfinity}).str(), "tensor([1.0000e+05, 1.0000e+00,       -inf])");
  EXPECT_EQ(tensor({kNaN}, {1, 1}).str(), "tensor([[nan]])");
  EXPECT_EQ(tensor({-kNaN}).str(), "tensor([nan])");
}

TEST(Printing, IntegersAndBoolsAlign) {
  EXPECT_EQ(tensor({-5, 100}, {-1}, kInt8).str(), "tensor([ -5, 100], dtype=torch.int8)");
  EXPECT_EQ(tensor({1, 0}, {-1}, kBool).str(), "tensor([ True, False])");
  EXPECT_EQ(tensor({1, 2}, {-1}, kUInt8).str(), "tensor([1, 2], dtype=torch.uint8)");
}

TEST(Printing, Scalars) {
  EXPECT_EQ(tensor(3).str(), "tensor(3)");
  EXPECT_EQ(tensor(2.5, kFloat64).str(), "tensor(2.5000, dtype=torch.float64)");
}

TEST(Printing, Half) {
  EXPECT_EQ(tensor({0.1, 2}, {-1}, kBFloat16).str(),
            "tensor([0.1001, 2.0000], dtype=torch.bfloat16)");
}

TEST(Printing, LongLinesBreak) {
  EXPECT_EQ(arange(30).str(),
            "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
            "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])");
}

TEST(Printing, NestedBrackets) {
  EXPECT_EQ((arange(24).reshape({2, 3, 4}).to(kFloat32) / 8).str(),
            "tensor([[[0.0000, 0.1250, 0.2500, 0.3750],\n"
            "         [0.5000, 0.6250, 0.7500, 0.8750],\n"
            "         [1.0000, 1.1250, 1.2500, 1.3750]],\n"
            "\n"
            "        [[1.5000, 1.6250, 1.7500, 1.8750],\n"
            "         [2.0000, 2.1250, 2.2500, 2.3750],\n"
            "         [2.5000, 2.6250, 2.7500, 2.8750]]])");
}

TEST(Printing, LargeTensorsAreSummarised) {
  EXPECT_EQ(arange(1001).str(), "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
  EXPECT_EQ(arange(10000).reshape({100, 100}).str(),
            "tensor([[   0,    1,    2,  ...,   97,   98,   99],\n"
            "        [ 100,  101,  102,  ...,  197,  198,  199],\n"
            "        [ 200,  201,  202,  ...,  297,  298,  299],\n"
            "        ...,\n"
            "        [9700, 9701, 9702,  ..., 9797, 9798, 9799],\n"
            "        [9800, 9801, 9802,  ..., 9897, 9898, 9899],\n"
            "        [9900, 9901, 9902,  ..., 9997, 9998, 9999]])");
  EXPECT_EQ(arange(2000).reshape({2, 2, 500}).to(kFloat64).str(),
            "tensor([[[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 4.9700e+02,\n"
            "          4.9800e+02, 4.9900e+02],\n"
            "         [5.0000e+02, 5.0100e+02, 5.0200e+02,  ..., 9.9700e+02,\n"
            "          9.9800e+02, 9.9900e+02]],\n"
            "\n"
            "        [[1.0000e+03, 1.0010e+03, 1.0020e+03,  ..., 1.4970e+03,\n"
            "          1.4980e+03, 1.4990e+03],\n"
            "         [1.5000e+03, 1.5010e+03, 1.5020e+03,  ..., 1.9970e+03,\n"
            "          1.9980e+03, 1.9990e+03]]], dtype=torch.float64)");
}

TEST(Printing, TensorsWithoutElements) {
  EXPECT_EQ(zeros({0}).str(), "tensor([])");
  EXPECT_EQ(zeros({2, 0}, kInt64).str(), "tensor([], size=(2, 0), dtype=torch.int64)");
  EXPECT_EQ(zeros({0}, kInt32).str(), "tensor([], dtype=torch.int32)");
  EXPECT_EQ(zeros({2, 3}, Device("null")).str(), "tensor(..., device='null', size=(2, 3))");
  EXPECT_EQ(Tensor().str(), "tensor(undefined)");
}

TEST(Printing, History) {
  const Tensor leaf = zeros({3}).requires_grad_();
  EXPECT_EQ(leaf.str(), "tensor([0., 0., 0.], requires_grad=True)");
  EXPECT_EQ((leaf + leaf).str(), "tensor([0., 0., 0.], grad_fn=<AddBackward0>)");
}

TEST(Printing, SuffixMovesToItsOwnLine) {
  EXPECT_EQ(full({12}, 0.123456, kFloat64).str(),
            "tensor([0.1235, 0.1235, 0.1235, 0.1235, 0.1235, 0.1235, 0.1235, 0.1235, 0.1235,\n"
            "        0.1235, 0.1235, 0.1235], dtype=torch.float64)");
  EXPECT_EQ(full({8}, 0.123456, kFloat64).str(),
            "tensor([0.1235, 0.1235, 0.1235, 0.1235, 0.1235, 0.1235, 0.1235, 0.1235],\n"
            "       dtype=torch.float64)");
}

TEST(Printing, StridedAndStream) {
  std::ostringstream stream;
  stream << arange(6).reshape({2, 3}).permute({1, 0});
  EXPECT_EQ(stream.str(), "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])");
  const Tensor x = full({2, 3}, 0.5);
  std::ostringstream parts;
  parts << x.sizes() << ' ' << x.dtype() << ' ' << x.device() << ' ' << Scalar(2.5) << ' '
        << Dims{1};
  EXPECT_EQ(parts.str(), "[2, 3] float32 cpu 2.5 [1]");
}

}  // namespace
}  // namespace facula
