// Pooling and its gradients. ceil: windows may hang over the end; inside: averages are of what lies
// inside the image alone; relu: the maxima are of what relu gave, whose gradient is wanted.
#include <algorithm>

#include "benchmarks/kernels/problem.h"
#include "ops/attrs/avg_pool2d.h"
#include "ops/attrs/avg_pool2d_backward.h"
#include "ops/attrs/max_pool2d_backward.h"
#include "ops/attrs/max_pool2d_with_indices.h"
#include "ops/attrs/uneven_avg_pool2d.h"
#include "ops/attrs/uneven_avg_pool2d_backward.h"

namespace facula::kernels {
namespace {

constexpr Size kDilation = {"d", 1, 0, true}, kCeil = {"ceil", 0, 1}, kInside = {"inside", 0, 1};

std::vector<Size> sizes(std::initializer_list<Size> options) {
  std::vector<Size> all = {{"n"},
                           {"c"},
                           {"h"},
                           {"w", Size::kAsHeight},
                           {"k", 2, 0, true},
                           {"s", 2, 0, true},
                           {"p", 0, 0, true}};
  all.insert(all.end(), options);
  return all;
}

Sizes draw_averages(Random& random) {
  Sizes v = {{"n", random.integer(1, 5)},  {"c", random.integer(1, 70)},
             {"kh", random.integer(1, 5)}, {"kw", random.integer(1, 5)},
             {"sh", random.integer(1, 4)}, {"sw", random.integer(1, 4)}};
  if (random.one_in(8)) v["c"] = random.integer(100, 500);
  if (random.one_in(4)) v["kh"] = v["kw"] = 3, v["sh"] = v["sw"] = 2;
  v["ph"] = random.integer(0, v["kh"] / 2);
  v["pw"] = random.integer(0, v["kw"] / 2);
  v["h"] = v["kh"] + random.integer(0, 14);
  v["w"] = v["kw"] + random.integer(0, 14);
  if (random.one_in(10)) {  // whole planes, so many that their averages are not all nearly 0
    v["c"] += 8;
    v["h"] = v["kh"], v["w"] = v["kw"], v["ph"] = v["pw"] = 0;
  }
  return v;
}

/// Large windows that overlap much, whose maxima are found line by line: of few images or of many.
void make_overlap(Random& random, Sizes& v) {
  if (random.one_in(2)) v["n"] = random.integer(16, 20);
  v["c"] = random.integer(1, 40);
  for (const std::string side : {"h", "w"}) {
    const std::int64_t k = random.integer(4, 9);
    v["k" + side] = k;
    v["s" + side] = random.integer(1, 2);
    v["p" + side] = random.integer(0, k / 2);
    v[side] = k + random.integer(0, 10);
  }
}

Sizes draw_maxima(Random& random) {
  Sizes v = draw_averages(random);
  if (random.one_in(6)) make_overlap(random, v);
  if (!random.one_in(4)) return v;
  v["dh"] = random.integer(1, 3);
  v["dw"] = random.integer(1, 3);
  v["h"] += (v["dh"] - 1) * (v["kh"] - 1);
  v["w"] += (v["dw"] - 1) * (v["kw"] - 1);
  return v;
}

Tensor input(const Problem& p) { return images(p, {p["n"], p["c"], p["h"], p["w"]}); }

struct Windows {
  explicit Windows(const Problem& p)
      : kernel{p["kh"], p["kw"]}, stride{p["sh"], p["sw"]}, padding{p["ph"], p["pw"]} {}
  Dims kernel, stride, padding;
};

Operands maxima(const Problem& p) {
  const Windows w(p);
  return {{input(p)},
          attributes(ops::max_pool2d_with_indices_attrs{w.kernel, w.stride, w.padding,
                                                        Dims{p["dh"], p["dw"]}, p["ceil"] != 0})};
}

Operands averages(const Problem& p) {
  const Windows w(p);
  return {{input(p)},
          attributes(ops::avg_pool2d_attrs{w.kernel, w.stride, w.padding, p["ceil"] != 0,
                                           p["inside"] == 0})};
}

Operands maxima_backward(const Problem& p) {
  const Windows w(p);
  const Tensor values = normal({p["n"], p["c"], p["h"], p["w"]});
  const Tensor indices = std::get<1>(
      max_pool2d_with_indices(values.contiguous(input(p).suggest_memory_format()), w.kernel,
                              w.stride, w.padding, {p["dh"], p["dw"]}, p["ceil"] != 0));
  return {
      {images(p, indices.sizes()), {indices, nullptr}, p["relu"] ? input(p) : Tensor()},
      attributes(ops::max_pool2d_backward_attrs{
          {p["h"], p["w"]}, w.kernel, w.stride, w.padding, {p["dh"], p["dw"]}, p["ceil"] != 0})};
}

Operands averages_backward(const Problem& p) {
  const Windows w(p);
  const std::string_view format = p.channels_last() ? "channels_last" : "contiguous";
  const Tensor result = avg_pool2d(zeros({p["n"], p["c"], p["h"], p["w"]}), w.kernel, w.stride,
                                   w.padding, p["ceil"] != 0);
  return {{images(p, result.sizes())},
          attributes(ops::avg_pool2d_backward_attrs{
              {p["h"], p["w"]}, w.kernel, w.stride, w.padding, p["inside"] == 0, format})};
}

std::vector<Size> of_uneven() {
  return {{"n"}, {"c"}, {"h"}, {"w", Size::kAsHeight}, {"oh"}, {"ow"}};
}

Sizes draw_uneven(Random& random) {
  Sizes v = {{"n", random.integer(1, 5)},   {"c", random.integer(1, 70)},
             {"h", random.integer(1, 24)},  {"w", random.integer(1, 24)},
             {"oh", random.integer(1, 26)}, {"ow", random.integer(1, 26)}};
  if (random.one_in(8)) v["c"] = random.integer(100, 500);
  return v;
}

Operands uneven(const Problem& p) {
  return {{input(p)}, attributes(ops::uneven_avg_pool2d_attrs{Dims{p["oh"], p["ow"]}})};
}

Operands uneven_backward(const Problem& p) {
  const std::string_view format = p.channels_last() ? "channels_last" : "contiguous";
  return {{images(p, {p["n"], p["c"], p["oh"], p["ow"]})},
          attributes(ops::uneven_avg_pool2d_backward_attrs{{p["h"], p["w"]}, format})};
}

}  // namespace

std::vector<Kind> pools() {
  const std::vector<Size> of_maxima = sizes({kDilation, kCeil}),
                          of_their_gradient = sizes({kDilation, kCeil, {"relu", 0, 1}}),
                          of_averages = sizes({kCeil, kInside});
  return {
      {"max_pool2d_with_indices", of_maxima, true, draw_maxima, maxima, nullptr, kOfNone},
      {"max_pool2d_backward", of_their_gradient, true, draw_maxima, maxima_backward, nullptr},
      {"avg_pool2d", of_averages, true, draw_averages, averages, nullptr},
      {"avg_pool2d_backward", of_averages, true, draw_averages, averages_backward, nullptr},
      {"uneven_avg_pool2d", of_uneven(), true, draw_uneven, uneven, nullptr},
      {"uneven_avg_pool2d_backward", of_uneven(), true, draw_uneven, uneven_backward, nullptr},
  };
}

}  // namespace facula::kernels
