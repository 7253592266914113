#include "io/streamed_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace facula::io {
namespace {

TEST(StreamedCopy, CopiesJustTheBytesOfAnySizeAndAlignment) {
  std::vector<std::uint8_t> source(1000);
  std::iota(source.begin(), source.end(), std::uint8_t{1});
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 127, 128, 200, 700}) {
    for (const std::size_t from : {0, 1, 33}) {
      for (std::size_t to = 0; to < 70; ++to) {
        std::vector<std::uint8_t> target(900, 0);
        streamed_copy(target.data() + to, source.data() + from, bytes);
        std::vector<std::uint8_t> expected(900, 0);
        std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from), bytes,
                    expected.begin() + static_cast<std::ptrdiff_t>(to));
        ASSERT_EQ(target, expected) << bytes << " bytes from " << from << " to " << to;
      }
    }
  }
}

}  // namespace
}  // namespace facula::io
