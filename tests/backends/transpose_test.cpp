// Copies between layouts against a loop over the elements, bit by bit: every dtype, any order of
// dimensions, sizes around those of tiles.
#include <cstring>

#include "core/tensor_impl.h"
#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

const DType kDTypes[] = {kUInt8, kBool, kFloat16, kInt16, kInt32, kFloat32, kInt64, kFloat64};

/// Of arbitrary bytes: among floats there are NaNs of every kind.
Tensor arbitrary(Source& source, IntList sizes, DType dtype) {
  const Tensor result = empty(sizes, dtype);
  for (std::int64_t i = 0; i < result.nbytes(); ++i) {
    const std::int64_t byte = source.integer(0, dtype == kBool ? 1 : 255);
    result.impl()->data[i] = static_cast<std::byte>(byte);
  }
  return result;
}

/// Fails unless both have the same sizes and bytes of elements.
void expect_same_elements(const Tensor& actual, const Tensor& expected, const std::string& what) {
  ASSERT_TRUE(actual.sizes() == expected.sizes()) << what;
  const TensorImpl &a = *actual.impl(), &b = *expected.impl();
  const auto size = static_cast<std::size_t>(size_of(a.dtype));
  for (std::int64_t i = 0; i < a.numel; ++i) {
    std::int64_t rest = i, at_a = 0, at_b = 0;
    for (int d = a.dim - 1; d >= 0; --d) {
      at_a += rest % a.sizes[d] * a.strides[d];
      at_b += rest % a.sizes[d] * b.strides[d];
      rest /= a.sizes[d];
    }
    ASSERT_EQ(std::memcmp(a.data + at_a * static_cast<std::int64_t>(size),
                          b.data + at_b * static_cast<std::int64_t>(size), size),
              0)
        << what << ", element " << i;
  }
}

void expect_copies(const Tensor& x, const std::string& what) {
  ASSERT_NO_FATAL_FAILURE(expect_same_elements(x.contiguous(), x, what));
  if (x.dim() == 4) expect_same_elements(x.contiguous(kChannelsLast), x, what);
}

TEST(Transpose, AnyOrderOfDimensions) {
  Source source(1);
  for (int i = 0; i < problems(300); ++i) {
    const auto dtype = kDTypes[source.integer(0, std::size(kDTypes) - 1)];
    Dims sizes, order;
    for (int d = 0, dim = static_cast<int>(source.integer(2, 5)); d < dim; ++d) {
      sizes.push_back(source.integer(1, dim < 4 ? 150 : 9));
      order.push_back(d);
      std::swap(order[d], order[static_cast<int>(source.integer(0, d))]);
    }
    const Tensor x = permute(arbitrary(source, sizes, dtype), order);
    expect_copies(x, fmt::format("{} {} by {}", name_of(dtype), sizes, order));
  }
}

TEST(Transpose, ImagesOfAnyNumberOfChannels) {
  Source source(2);
  for (const DType dtype : kDTypes) {
    for (const std::int64_t channels : {2, 3, 4, 5, 16, 31, 64, 100}) {
      const Tensor x = arbitrary(source, {2, channels, 13, 11}, dtype);
      const std::string what = fmt::format("{}, {} channels", name_of(dtype), channels);
      expect_copies(x, what);
      expect_copies(x.contiguous(kChannelsLast), what);
      // Parts of images do not begin with a line of the cache.
      const Tensor part = x.narrow(2, 1, 9).narrow(3, 2, 7);
      expect_copies(part, what);
      expect_copies(part.contiguous(kChannelsLast), what);
    }
  }
}

// Written past the caches.
TEST(Transpose, LargeResults) {
  Source source(3);
  const std::int64_t rows = cpu::most_cached_bytes() / 4 / 1024 + 37;
  const Tensor x = arange(0, static_cast<double>(rows * 1024), 1, kInt32).view({rows, 1024});
  for (const Tensor& wide : {x, x.narrow(1, 1, 1022)}) {
    const Tensor transposed = wide.t().contiguous();
    const auto* from = x.impl()->typed<std::int32_t>() + (wide.size(1) < 1024);
    const auto* to = transposed.impl()->typed<std::int32_t>();
    for (std::int64_t j = 0; j < wide.size(1); ++j) {
      for (std::int64_t i = 0; i < rows; ++i) ASSERT_EQ(to[j * rows + i], from[i * 1024 + j]);
    }
  }
}

// The same of pixels of few channels, which become planes, and the other way round.
TEST(Transpose, LargeImages) {
  const std::int64_t images = cpu::most_cached_bytes() / 4 / (3 * 67 * 61) + 2;
  const Tensor x = arange(0, static_cast<double>(images * 3 * 67 * 61), 1, kInt32);
  const Tensor planes = x.view({images, 3, 67, 61}), pixels = planes.contiguous(kChannelsLast);
  EXPECT_FALSE(pixels.is_contiguous());
  expect_same_elements(pixels, planes, "planes to pixels");
  EXPECT_TRUE(equal(pixels.contiguous(), planes));
}

}  // namespace
}  // namespace facula
