#include <algorithm>
#include <numeric>
#include <vector>

#include <facula/ops.h>

#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

namespace {

constexpr std::int64_t kSlice = 1 << 16, kBlock = 256;

/// Writes the places of the hits among elements [begin, end), which may be parts of several rows.
/// Which elements of a block are hits is found without branches, for nobody can predict them.
void write_places(const bool* hits, std::int64_t begin, std::int64_t end, IntList sizes,
                  std::int64_t* place) {
  const int last = static_cast<int>(sizes.size()) - 1;
  Dims row = Dims::filled(last + 1, 0);
  while (begin < end) {
    std::int64_t rest = begin;
    for (int d = last; d >= 0; rest /= sizes[d--]) row[d] = rest % sizes[d];
    const std::int64_t n = std::min({kBlock, end - begin, sizes[last] - row[last]});
    std::uint8_t found[kBlock];
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      found[count] = static_cast<std::uint8_t>(i);
      count += hits[begin + i];
    }
    for (std::int64_t i = 0; i < count; ++i) {
      for (int d = 0; d < last; ++d) *place++ = row[d];
      *place++ = row[last] + found[i];
    }
    begin += n;
  }
}

}  // namespace

Tensor nonzero(const Tensor& self) {
  check_defined("nonzero", self);
  check<DeviceError>(!self.device().is_null(),
                     "nonzero: the number of results on the null device is unknown");
  const Tensor mask =
      in_call("nonzero", {&self}, [&] { return (self.detach() != 0).cpu().contiguous(); });
  const bool* hits = mask.data_ptr<bool>();
  const std::int64_t numel = mask.numel(), slices = base::divide_up(numel, kSlice);
  std::vector<std::int64_t> first(static_cast<std::size_t>(slices) + 1, 0);
  base::parallel_for(slices, [&](std::int64_t s) {
    first[s + 1] = std::count(hits + s * kSlice, hits + std::min(numel, (s + 1) * kSlice), true);
  });
  std::partial_sum(first.begin(), first.end(), first.begin());
  const Tensor places = new_tensor({first.back(), self.dim()}, kInt64, kCPU);
  auto* place = places.impl()->typed<std::int64_t>();
  if (self.dim() > 0) {
    base::parallel_for(slices, [&](std::int64_t s) {
      write_places(hits, s * kSlice, std::min(numel, (s + 1) * kSlice), self.sizes(),
                   place + first[s] * self.dim());
    });
  }
  return places.to(self.device());
}

namespace ops {

CompositeDef define_nonzero() {
  return {
      .signature = "nonzero(Tensor self) -> Tensor",
      .doc =
          "The indices of all elements other than 0, in row-major order.  self: [*] -> int64 "
          "[N, dim].",
      .samples =
          [](Samples& s) {
            s.add({s.mask({3, 4})});
            s.add({s.integers({2, 3, 4}, 0, 3)});
            s.add({tensor({0.0, 1.5, std::numeric_limits<double>::quiet_NaN(), -0.0})});
            s.add({tensor(3)});
            s.add({tensor({0, 0})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({Tensor()}, "undefined");
            e.fails({e.normal({2}).to(kFloat16)}, "not supported");
          },
  };
}

}  // namespace ops
}  // namespace facula
