// Calls large enough to be split among threads.
#pragma once

#include <cstring>

#include "tests/ops/op_examples.h"

namespace facula::test {

/// `t` repeated until it fills `sizes`.
inline Tensor tiled(const Tensor& t, IntList sizes) {
  const Tensor source = t.contiguous();
  const Tensor result = empty(sizes, t.dtype());
  const auto bytes = static_cast<std::size_t>(t.element_size());
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    std::memcpy(static_cast<std::byte*>(result.raw_data()) + i * bytes,
                static_cast<const std::byte*>(source.raw_data()) + i % source.numel() * bytes,
                bytes);
  }
  return result;
}

/// Elementwise ops and reductions get their samples' values in larger shapes, with odd sizes that
/// leave tails. Shapes of other ops depend on each other, so their large calls stand here; ops that
/// do not exist are ignored.
inline std::vector<Sample> large_samples_of(const ops::DynamicOp& op) {
  std::vector<Sample> large;
  if (takes_any_shape(op)) {
    Sample sample = typical_sample(op);
    for (const Dims& sizes : {Dims{300, 411}, Dims{7, 19, 1009}}) {
      large.push_back(mapped(sample, [&](const Tensor& t) { return tiled(t, sizes); }));
    }
    return large;
  }
  Samples s;
  const std::string name = op.name;
  if (name == "mm") s.add({s.normal({257, 123}), s.normal({123, 301})});
  if (name == "bmm") s.add({s.normal({5, 65, 33}), s.normal({5, 33, 47})});
  if (name == "linear") s.add({s.normal({129, 70}), s.normal({101, 70}), s.normal({101})});
  if (name == "conv2d") {
    s.add({s.normal({5, 16, 17, 19}), s.normal({24, 16, 3, 3}), s.normal({24}),
           std::vector<std::int64_t>{1, 1}, std::vector<std::int64_t>{1, 1}});
  }
  if (name == "softmax" || name == "log_softmax" || name == "cumsum" || name == "argmax") {
    s.add({s.normal({301, 257}), 1});
    s.add({s.normal({301, 257}), 0});
  }
  if (name == "max_pool2d" || name == "avg_pool2d") {
    s.add({s.normal({3, 33, 35, 37}), std::vector<std::int64_t>{3, 3}});
  }
  if (name == "batch_norm") {
    s.add(
        {s.normal({9, 33, 17, 19}), s.normal({33}), s.normal({33}), Argument(), Argument(), true});
  }
  if (name == "cat") {
    s.add({std::vector<Tensor>{s.normal({401, 257}), s.normal({77, 257})}, 0});
  }
  if (name == "to_copy") s.add({strided(s.normal({301, 257}))});
  if (name == "gather") s.add({s.normal({301, 257}), 1, s.integers({301, 257}, 0, 257)});
  if (name == "index_select") s.add({s.normal({301, 257}), 0, s.integers({700}, 0, 301)});
  if (name == "index_add") {
    s.add({s.normal({31, 257}), 0, s.integers({700}, 0, 31), s.normal({700, 257})});
  }
  if (name == "scatter_add") {
    s.add({s.normal({31, 257}), 0, s.integers({700, 257}, 0, 31), s.normal({700, 257})});
  }
  return s.list();
}

}  // namespace facula::test
