// Matrix products: [m, k] times [k, n]; ta and tb are 1 for operands that are transposed views.
// Linear layers have bias 0 or 1 (1), and linear_fused GELU, or without gelu1 relu.
#include "benchmarks/kernels/problem.h"
#include "ops/attrs/linear_fused.h"

namespace facula::kernels {
namespace {

Sizes draw(Random& random) {
  Sizes v = {{"b", random.integer(1, 4)},
             {"m", random.integer(1, 90)},
             {"n", random.integer(1, 90)},
             {"k", random.integer(1, 200)}};
  if (random.one_in(8)) v["k"] = random.integer(1, 3000);
  if (random.one_in(8)) v["m"] = random.integer(1, 700);
  if (random.one_in(16)) v["n"] = random.integer(500, 1200);
  // A few sums may all be nearly 0, beside which any rounding is large.
  if (v["m"] * v["n"] < 8) v["n"] += 8;
  return v;
}

Sizes draw_matrices(Random& random) {
  Sizes v = draw(random);
  v.erase("b");
  return v;
}

/// Its two last dimensions may lie transposed.
Tensor matrices(IntList batch, std::int64_t rows, std::int64_t columns, bool transposed) {
  Dims sizes = batch;
  sizes.push_back(transposed ? columns : rows);
  sizes.push_back(transposed ? rows : columns);
  return transposed ? transpose(empty(sizes), -1, -2) : empty(sizes);
}

Operands product(const Problem& p) {
  const Dims batch = p["b"] ? Dims{p["b"]} : Dims{};
  return {{matrices(batch, p["m"], p["k"], p["ta"] != 0),
           matrices(batch, p["k"], p["n"], p["tb"] != 0)},
          nullptr};
}

Operands linear(const Problem& p) {
  return {{empty({p["m"], p["k"]}), empty({p["n"], p["k"]}),
           p["bias"] ? per_channel(p["n"]) : Tensor()},
          nullptr};
}

Operands linear_fused(const Problem& p) {
  Operands operands = linear(p);
  const std::string_view activation = p["gelu"] ? "gelu" : "relu";
  operands.attributes = attributes(ops::linear_fused_attrs{activation, {}});
  return operands;
}

double flops(const Problem& p) {
  const std::int64_t batch = p["b"] ? p["b"] : 1;
  return 2.0 * static_cast<double>(batch * p["m"] * p["n"] * p["k"]);
}

}  // namespace

std::vector<Kind> products() {
  std::vector<Kind> kinds = {
      {"mm",
       {{"m"}, {"n"}, {"k"}, {"ta", 0, 1}, {"tb", 0, 1}},
       false,
       draw_matrices,
       product,
       flops},
      {"bmm",
       {{"b"}, {"m"}, {"n"}, {"k"}, {"ta", 0, 1}, {"tb", 0, 1}},
       false,
       draw,
       product,
       flops},
      {"linear", {{"m"}, {"n"}, {"k"}, {"bias", 1, 1}}, false, draw_matrices, linear, flops},
      {"linear_fused",
       {{"m"}, {"n"}, {"k"}, {"bias", 1, 1}, {"gelu", 0, 1}},
       false,
       draw_matrices,
       linear_fused,
       flops},
  };
  for (Kind& kind : kinds) kind.most_error = kOfProducts;
  return kinds;
}

}  // namespace facula::kernels
