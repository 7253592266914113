// Convolutions and their gradients. bias: 0 or 1; g: groups, as many as channels in depthwise ones;
// double: 1 for float64.
// conv2d_fused: affine, relu, and add, a tensor added between the two, or cap, the most that relu
// lets pass (0: no limit), which bring along what they need. conv2d_backward_input_fused: add, a
// gradient that is added, and relu, the gradient of that.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>

#include "base/divide_up.h"
#include "benchmarks/kernels/problem.h"
#include "ops/attrs/conv2d.h"
#include "ops/attrs/conv2d_backward_input.h"
#include "ops/attrs/conv2d_backward_input_fused.h"
#include "ops/attrs/conv2d_backward_weight.h"
#include "ops/attrs/conv2d_fused.h"
#include "ops/schema/convolution.h"

namespace facula::kernels {
namespace {

std::vector<Size> sizes() {
  return {{"n"},
          {"c"},
          {"h"},
          {"w", Size::kAsHeight},
          {"oc"},
          {"k", 1, 0, true},
          {"s", 1, 0, true},
          {"p", 0, 0, true},
          {"d", 1, 0, true},
          {"g", 1}};
}

std::vector<Size> sizes_and(std::initializer_list<Size> options) {
  std::vector<Size> all = sizes();
  all.insert(all.end(), options);
  return all;
}

/// The same operands, in float64 if the problem says so.
Operands in_dtype(const Problem& p, Operands operands) {
  for (Operand& operand : operands.tensors) {
    if (p["double"] && operand.tensor.defined()) operand.tensor = operand.tensor.to(kFloat64);
  }
  return operands;
}

ConvShape shape_of(const Problem& p) {
  const Dims stride = {p["sh"], p["sw"]}, padding = {p["ph"], p["pw"]},
             dilation = {p["dh"], p["dw"]};
  const std::int64_t groups = std::max<std::int64_t>(1, p["g"]);
  return conv_shape("conv2d", Dims{p["n"], p["c"], p["h"], p["w"]},
                    Dims{p["oc"], p["c"] / groups, p["kh"], p["kw"]},
                    {stride, padding, dilation, p["g"]});
}

/// Images as large as the window, where they are smaller.
void make_room(Sizes& v) {
  for (const char side : {'h', 'w'}) {
    const auto along = [&](char name, std::int64_t absent) {
      const std::string both(1, name), own = {name, side};
      return v.contains(own) ? v[own] : v.contains(both) ? v[both] : absent;
    };
    std::int64_t& size = v[std::string(1, side)];
    size = std::max(size, along('d', 1) * (along('k', 1) - 1) + 1 - 2 * along('p', 0));
  }
}

Sizes draw(Random& random) {
  const auto integer = [&](std::int64_t low, std::int64_t high) {
    return random.integer(low, high);
  };
  Sizes v = {{"n", integer(1, 5)},  {"h", integer(1, 18)},
             {"w", integer(1, 18)}, {"k", random.one_in(3) ? 1 : 3},
             {"c", integer(1, 40)}, {"oc", integer(1, 40)}};
  if (random.one_in(8)) v["c"] = integer(100, 500);
  if (random.one_in(8)) v["oc"] = integer(100, 500);
  if (random.one_in(4)) v["k"] = integer(1, 7);
  if (random.one_in(8)) v["kh"] = integer(1, 5);
  v["p"] = random.one_in(4) ? integer(0, 4) : v["k"] / 2;
  if (random.one_in(3)) v["s"] = integer(1, 3);
  if (random.one_in(6)) v["d"] = integer(1, 3);
  if (random.one_in(8)) v["sh"] = integer(1, 3);
  if (random.one_in(8)) v["ph"] = integer(0, 3);
  if (random.one_in(12)) v["dh"] = integer(1, 3);
  if (random.one_in(10)) {  // tiny images of a large batch
    v["n"] = integer(32, 70);
    v["h"] = v["w"] = integer(1, 3);
    v["c"] = integer(20, 80);
    v["oc"] = integer(20, 80);
  }
  if (random.one_in(10)) {  // downsampling
    v = {{"n", integer(1, 6)},
         {"c", integer(30, 100)},
         {"oc", integer(30, 100)},
         {"h", integer(6, 24)},
         {"w", integer(6, 24)},
         {"k", 3},
         {"s", 2},
         {"p", 1}};
  }
  if (random.one_in(4)) {
    v["g"] = random.one_in(2) ? v["c"] : integer(2, 4);
    v["c"] = v["g"] * (v["c"] == v["g"] ? 1 : integer(1, 12));
    v["oc"] = v["g"] * integer(1, 3);
  }
  if (random.one_in(30)) {  // huge channels; half with tiles enough for Winograd's algorithm
    const bool tiles = random.one_in(2);
    const auto side = [&] { return tiles ? integer(12, 16) : integer(1, 5); };
    v = {{"n", tiles ? 1 : integer(1, 2)}, {"h", side()}, {"w", side()}, {"k", 3}, {"p", 1}};
    v["c"] = integer(tiles ? 16 : 1, 30);
    v["oc"] = integer(1000, tiles ? 4096 : 5000);
    if (random.one_in(2)) std::swap(v["c"], v["oc"]);
  }
  if (random.one_in(20)) {  // windows side by side: patches, where images lie in planes
    const std::int64_t k = integer(2, 4);
    v = {{"n", integer(1, 3)}, {"c", integer(1, 20)}, {"oc", integer(1, 70)}, {"k", k}, {"s", k}};
    for (const char* side : {"h", "w"}) v[side] = k * integer(8, 12) + integer(0, k - 1);
  }
  if (random.one_in(30)) {  // a matrix of weights
    v = {{"n", integer(1, 3)}, {"h", integer(1, 14)}, {"w", integer(1, 14)}, {"k", 1}};
    v["c"] = integer(60, 500);
    v["oc"] = integer(60, 500);
  }
  if (random.one_in(30)) {  // few pixels and large weights, from 512 * 512 on
    const std::int64_t k = integer(1, 7), fewest = base::divide_up(512, k);
    v = {{"n", random.one_in(4) ? 2 : 1}, {"h", integer(1, 7)}, {"w", integer(1, 7)}, {"k", k}};
    v["c"] = integer(fewest, fewest + 40);
    v["oc"] = integer(fewest, fewest + 40);
    v["s"] = integer(1, 2);
    v["p"] = integer(0, k - 1);
    if (random.one_in(4)) v["d"] = 2;
  }
  if (random.one_in(20)) {  // depthwise, with lines that fill vectors
    v = {{"n", integer(1, 3)}, {"h", integer(1, 60)}, {"w", 16 * integer(1, 4) - integer(0, 5)}};
    v["g"] = v["c"] = v["oc"] = integer(2, 40);
    v["k"] = 2 * integer(1, 3) + 1;
    v["p"] = integer(0, v["k"] - 1);
    if (random.one_in(4)) v["dw"] = 2;
  }
  // The gradient of a single weight may be nearly 0 because its terms cancel.
  if (v["c"] * v["oc"] < 4) v["oc"] *= 4;
  make_room(v);
  return v;
}

/// Caps are near the largest results, by which errors are measured.
Sizes draw_fused(Random& random) {
  Sizes v = draw(random);
  if (random.one_in(4)) v["cap"] = static_cast<std::int64_t>(2 * std::sqrt(v["c"]) * v["k"]);
  return v;
}

struct Windows {
  explicit Windows(const ConvShape& s)
      : stride{s.stride_h, s.stride_w},
        padding{s.pad_h, s.pad_w},
        dilation{s.dilation_h, s.dilation_w} {}
  Dims stride, padding, dilation;
};

Operands forward(const Problem& p) {
  const ConvShape s = shape_of(p);
  const Windows w(s);
  return in_dtype(p, {{images(p, s.input_sizes()), empty(s.weight_sizes()),
                       p["bias"] ? per_channel(s.oc) : Tensor()},
                      attributes(ops::conv2d_attrs{w.stride, w.padding, w.dilation, s.groups})});
}

Operands fused(const Problem& p) {
  const ConvShape s = shape_of(p);
  const Windows w(s);
  const bool affine = p["affine"] || p["add"], relu = p["relu"] || p["add"] || p["cap"];
  const auto factors = [&] { return affine ? per_channel(s.oc) : Tensor(); };
  const std::optional<double> cap =
      p["cap"] ? std::optional<double>(static_cast<double>(p["cap"])) : std::nullopt;
  return {
      {images(p, s.input_sizes()), empty(s.weight_sizes()),
       p["bias"] ? per_channel(s.oc) : Tensor(), factors(), factors(),
       p["add"] ? images(p, s.output_sizes()) : Tensor()},
      attributes(ops::conv2d_fused_attrs{relu, w.stride, w.padding, w.dilation, s.groups, cap})};
}

Operands backward_input(const Problem& p) {
  const ConvShape s = shape_of(p);
  const Windows w(s);
  return in_dtype(p, {{images(p, s.output_sizes()), empty(s.weight_sizes())},
                      attributes(ops::conv2d_backward_input_attrs{
                          s.input_sizes(), w.stride, w.padding, w.dilation, s.groups})});
}

Operands backward_input_fused(const Problem& p) {
  const ConvShape s = shape_of(p);
  const Windows w(s);
  const auto wanted = [&](const char* key) {
    return p[key] ? images(p, s.input_sizes()) : Tensor();
  };
  return {{images(p, s.output_sizes()), empty(s.weight_sizes()), wanted("add"), wanted("relu")},
          attributes(ops::conv2d_backward_input_fused_attrs{s.input_sizes(), w.stride, w.padding,
                                                            w.dilation, s.groups})};
}

Operands backward_weight(const Problem& p) {
  const ConvShape s = shape_of(p);
  const Windows w(s);
  return in_dtype(p, {{images(p, s.output_sizes()), images(p, s.input_sizes())},
                      attributes(ops::conv2d_backward_weight_attrs{
                          {s.kh, s.kw}, w.stride, w.padding, w.dilation, s.groups})});
}

double flops(const Problem& p) {
  const ConvShape s = shape_of(p);
  return 2.0 * static_cast<double>(s.n * s.multiplications_per_image());
}

}  // namespace

std::vector<Kind> convolutions() {
  const Size bias = {"bias", 0, 1}, wide = {"double", 0, 1};
  std::vector<Kind> kinds = {
      {"conv2d", sizes_and({bias, wide}), true, draw, forward, flops},
      {"conv2d_fused",
       sizes_and({bias, {"affine", 0, 1}, {"add", 0, 1}, {"relu", 0, 1}, {"cap", 0}}), true,
       draw_fused, fused, flops},
      {"conv2d_backward_input", sizes_and({wide}), true, draw, backward_input, flops},
      {"conv2d_backward_input_fused", sizes_and({{"add", 0, 1}, {"relu", 1, 1}}), true, draw,
       backward_input_fused, flops},
      {"conv2d_backward_weight", sizes_and({wide}), true, draw, backward_weight, flops}};
  for (Kind& kind : kinds) kind.most_error = kOfProducts;
  return kinds;
}

}  // namespace facula::kernels
