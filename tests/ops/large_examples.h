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

/// Calls of what normalizes or scales per channel: 4725 rows of 33 channels and planes of two
/// parts.
inline void add_per_channel_calls(Samples& s, const std::string& op) {
  for (const Dims& sizes : {Dims{9, 33, 21, 25}, Dims{2, 3, 130, 131}}) {
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      const Tensor x = s.normal(sizes).contiguous(format), y = s.normal(sizes).contiguous(format);
      const Tensor a = s.normal({sizes[1]}), b = s.normal({sizes[1]}), mean = s.normal({sizes[1]});
      const Tensor invstd = s.uniform({sizes[1]}, 0.5, 2);
      if (op == "batch_norm") s.add({x, a, invstd, Argument(), Argument(), true});
      if (op == "batch_norm_train") s.add({x, a, b});
      if (op == "batch_norm_stats") s.add({x});
      if (op == "batch_norm_relu") s.add({x, a, b, y, 1e-5, 1.5});
      if (op == "batch_norm_apply") s.add({x, mean, invstd, a, b, y, true});
      if (op == "batch_norm_backward") s.add({y, x, a, mean, invstd});
      if (op == "batch_norm_relu_backward") s.add({y, x, a, b, mean, invstd, 1.5});
      if (op == "channel_affine") s.add({x, a, b});
      if (op == "channel_affine_relu") s.add({x, a, b, y});
    }
  }
}

/// Pooling of 24 images, of which five make a slice.
inline void add_pooling_calls(Samples& s, const std::string& op) {
  const Dims size{13, 12}, kernel{3}, stride{2}, padding{1};
  for (MemoryFormat format : {kContiguous, kChannelsLast}) {
    const Tensor x = s.normal({24, 20, 13, 12}).contiguous(format);
    const Tensor grad = s.normal({24, 20, 7, 6}).contiguous(format);
    const Tensor indices = std::get<1>(max_pool2d_with_indices(x, kernel, stride, padding));
    if (op == "max_pool2d" || op == "avg_pool2d") s.add({x, kernel, stride, padding});
    if (op == "max_pool2d_with_indices") s.add({x, kernel, stride, padding});
    if (op == "max_pool2d_backward") {
      s.add({grad, indices, size, kernel, stride, padding});
      s.add({grad, indices, size, kernel, stride, padding, Dims{1}, false, x});
    }
    if (op == "avg_pool2d_backward") {
      s.add({grad, size, kernel, stride, padding, false,
             format == kChannelsLast ? "channels_last" : "contiguous"});
    }
    if (op == "uneven_avg_pool2d")
      s.add({s.normal({24, 20, 33, 32}).contiguous(format), Dims{7, 6}});
    if (op == "uneven_avg_pool2d_backward") {
      s.add({grad, Dims{33, 32}, format == kChannelsLast ? "channels_last" : "contiguous"});
    }
  }
}

/// Losses over 300 rows of 257 classes, 31 of which make a slice.
inline void add_cross_entropy_calls(Samples& s, const std::string& op) {
  const Tensor logits = s.normal({300, 257}), target = s.integers({300}, 0, 257);
  const Tensor weight = s.uniform({257}, 0.5, 2);
  for (const char* reduction : {"mean", "sum", "none"}) {
    if (op == "cross_entropy_loss" || op == "cross_entropy") {
      s.add({logits, target, weight, reduction, 3, 0.1});
    }
    if (op == "cross_entropy_loss_backward") {
      const Tensor grad = reduction == std::string("none") ? s.normal({300}) : s.normal({});
      s.add({grad, log_softmax(logits, 1), target, weight, reduction, 3, 0.1});
    }
  }
}

/// Scores of 21 classes of images, by planes and side by side.
inline void add_nll_calls(Samples& s, const std::string& op) {
  const Tensor target = s.integers({3, 45, 47}, 0, 21), weight = s.uniform({21}, 0.5, 2);
  for (MemoryFormat format : {kContiguous, kChannelsLast}) {
    const Tensor scores = s.normal({3, 21, 45, 47}).contiguous(format);
    for (const char* reduction : {"mean", "none"}) {
      if (op == "nll_loss") s.add({scores, target, weight, reduction, 3});
      if (op == "nll_loss_backward") {
        const Tensor grad = reduction == std::string("none") ? s.normal({3, 45, 47}) : s.normal({});
        s.add({grad, scores, target, weight, reduction, 3});
      }
    }
  }
}

/// Steps of an optimizer over tensors that begin and end inside slices.
inline void add_optimizer_calls(Samples& s, const std::string& op) {
  using Tensors = std::vector<Tensor>;
  auto number = [](double value) { return tensor(value, kFloat64); };
  auto list = [&] { return Tensors{s.normal({301, 77}), s.normal({}), s.normal({40001})}; };
  auto squares = [&] {
    return Tensors{s.uniform({301, 77}, 0.1, 2), s.uniform({}, 0.1, 2), s.uniform({40001}, 0.1, 2)};
  };
  if (op == "sgd_step_") {
    s.add({list(), list(), list(), number(0.1), number(0.9), 0., 0.01, true});
  }
  if (op == "adam_step_") {
    s.add({list(), list(), list(), squares(), squares(), number(0.1), number(0.9), number(3), 0.999,
           1e-8, 0.01, true, true});
  }
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
  for (int dim : {0, 1}) {
    if (name == "softmax_backward" || name == "log_softmax_backward") {
      s.add({s.normal({301, 257}), s.uniform({301, 257}, -7, -5), dim});
    }
    if (name == "argsort") s.add({s.normal({301, 257}), dim});
    if (name == "argtopk") s.add({s.normal({301, 257}), 5, dim});
  }
  const auto is = [&](std::string_view part) { return name.find(part) != name.npos; };
  if (is("batch_norm") || is("channel_affine")) add_per_channel_calls(s, name);
  if (is("_pool2d")) add_pooling_calls(s, name);
  if (is("cross_entropy")) add_cross_entropy_calls(s, name);
  if (is("nll_loss")) add_nll_calls(s, name);
  if (is("_step_")) add_optimizer_calls(s, name);
  if (name == "pair_loss") {
    s.add({s.normal({301, 257}), s.normal({301, 257}), "squared_error", "mean"});
    s.add({s.normal({301, 257}), s.uniform({301, 257}, 0, 1), "logit_cross_entropy", "sum"});
  }
  if (name == "var_mean" || name == "var" || name == "logsumexp") {
    for (const Dims& dims : {Dims{}, Dims{0}, Dims{1}, Dims{0, 2}}) {
      s.add({s.normal({301, 57, 5}), dims});
    }
  }
  const Tensor state = tensor({11, 5}, {2}, kInt64);
  for (const char* kind : {"uniform", "normal"}) {
    if (name == "philox_random") s.add({state, Dims{301, 257}, kFloat32, kind});
  }
  if (name == "philox_dropout") s.add({s.normal({301, 257}), state, 0.25});
  if (name == "dropout") s.add({s.normal({301, 257}), 0.25});
  if (name == "cat") {
    s.add({std::vector<Tensor>{s.normal({401, 257}), s.normal({77, 257})}, 0});
  }
  if (name == "to_copy") s.add({strided(s.normal({301, 257}))});
  if (name == "gather") s.add({s.normal({301, 257}), 1, s.integers({301, 257}, 0, 257)});
  if (name == "index_select") {
    s.add({s.normal({301, 257}), 0, s.integers({700}, 0, 301)});
    s.add({s.normal({301, 257}), 1, s.integers({300}, 0, 257)});
  }
  if (name == "index_add") {
    s.add({s.normal({31, 257}), 0, s.integers({700}, 0, 31), s.normal({700, 257})});
    s.add({s.normal({301, 25}), 1, s.integers({300}, 0, 25), s.normal({301, 300})});
  }
  if (name == "scatter_add") {
    s.add({s.normal({31, 257}), 0, s.integers({700, 257}, 0, 31), s.normal({700, 257})});
  }
  return s.list();
}

/// Both kinds.
inline std::vector<Sample> examples_of(const ops::DynamicOp& op) {
  std::vector<Sample> examples = samples_of(op);
  for (Sample& large : large_samples_of(op)) examples.push_back(std::move(large));
  return examples;
}

}  // namespace facula::test
