// Batch norm, its gradients, and what it is in evaluation. affine: with weight and bias (1); add:
// with a tensor added before relu; relu; cap: the most that relu lets pass, 0 for no limit.
#include <optional>

#include "benchmarks/kernels/problem.h"
#include "ops/attrs/batch_norm_apply.h"
#include "ops/attrs/batch_norm_relu.h"
#include "ops/attrs/batch_norm_relu_backward.h"
#include "ops/attrs/batch_norm_stats.h"
#include "ops/attrs/batch_norm_train.h"
#include "ops/attrs/channel_affine_relu.h"

namespace facula::kernels {
namespace {

constexpr double kEps = 1e-5;
constexpr Size kAffine = {"affine", 1, 1}, kAdd = {"add", 0, 1}, kRelu = {"relu", 0, 1},
               kCap = {"cap", 0, 2};

std::vector<Size> sizes(std::initializer_list<Size> options) {
  std::vector<Size> all = {{"n"}, {"c"}, {"h"}, {"w", Size::kAsHeight}};
  all.insert(all.end(), options);
  return all;
}

// Multiples of 1/16 near 0: products and sums of a few have no rounding errors, so that their sign
// is certain.
Tensor sixteenths(IntList sizes) { return round(randn(sizes) * 16) / 16; }
Tensor positive_sixteenths(IntList sizes) { return abs(sixteenths(sizes)); }
Tensor negative_sixteenths(IntList sizes) { return neg(positive_sixteenths(sizes)); }
Tensor powers_of_two(IntList sizes) { return exp2(randint(-1, 2, sizes).to(kFloat32)); }
Tensor negative(IntList sizes) { return neg(positive(sizes)); }

/// At least 8 elements a channel: the variance of fewer may be nearly 0.
Sizes draw(Random& random) {
  Sizes v = {{"n", random.integer(2, 6)},
             {"c", random.integer(1, 70)},
             {"h", random.integer(1, 12)},
             {"w", random.integer(1, 12)}};
  if (random.one_in(8)) {
    v["c"] = random.integer(100, 1100);
  } else if (random.one_in(8)) {
    v["n"] = random.integer(20, 100);
  }
  if (v["n"] * v["h"] * v["w"] < 8) v["h"] = 4;
  return v;
}

Tensor input(const Problem& p) { return images(p, {p["n"], p["c"], p["h"], p["w"]}); }
Operand vector(const Problem& p, Draw draw = normal) { return {per_channel(p["c"]), draw}; }
Operand optional(bool given, const Problem& p, Draw draw = normal) {
  return given ? vector(p, draw) : Operand(Tensor());
}
Tensor residual(const Problem& p, bool given = true) {
  return given && p["add"] ? input(p) : Tensor();
}
std::optional<double> cap(const Problem& p) {
  return p["cap"] ? std::optional<double>(static_cast<double>(p["cap"])) : std::nullopt;
}

// What is summed is positive: where terms cancel, nothing can be said of the error.

Operands stats(const Problem& p) {
  return {{{input(p), positive}}, attributes(ops::batch_norm_stats_attrs{kEps})};
}

Operands train(const Problem& p) {
  return {{{input(p), positive}, optional(p["affine"], p), optional(p["affine"], p)},
          attributes(ops::batch_norm_train_attrs{kEps})};
}

Operands relu(const Problem& p) {
  return {{{input(p), positive}, optional(p["affine"], p), optional(p["affine"], p), residual(p)},
          attributes(ops::batch_norm_relu_attrs{kEps, cap(p)})};
}

Operands apply(const Problem& p) {
  const bool relu = p["relu"] != 0;
  return {{input(p), vector(p), vector(p, positive), optional(p["affine"], p),
           optional(p["affine"], p), residual(p, relu)},
          attributes(ops::batch_norm_apply_attrs{relu, relu ? cap(p) : std::nullopt})};
}

Operands backward(const Problem& p) {
  return {{{input(p), positive},
           {input(p), positive},
           optional(p["affine"], p),
           vector(p, negative),
           vector(p, positive)},
          nullptr};
}

/// Whether relu let an element pass must not depend on rounding.
Operands relu_backward(const Problem& p) {
  return {{{input(p), positive},
           {input(p), positive_sixteenths},
           optional(p["affine"], p, sixteenths),
           optional(p["affine"], p, sixteenths),
           vector(p, negative_sixteenths),
           vector(p, powers_of_two)},
          attributes(ops::batch_norm_relu_backward_attrs{cap(p)})};
}

Operands affine(const Problem& p) { return {{input(p), vector(p), vector(p)}, nullptr}; }

Operands affine_relu(const Problem& p) {
  return {{input(p), vector(p), vector(p), residual(p)},
          attributes(ops::channel_affine_relu_attrs{cap(p)})};
}

}  // namespace

std::vector<Kind> batch_norms() {
  const auto kind = [](const char* op, std::initializer_list<Size> options, auto make,
                       double most_error = kOfBatchNorm) {
    return Kind{op, sizes(options), true, draw, make, nullptr, most_error};
  };
  return {kind("batch_norm_stats", {}, stats),
          kind("batch_norm_train", {kAffine}, train),
          kind("batch_norm_relu", {kAffine, kAdd, kCap}, relu),
          kind("batch_norm_apply", {kAffine, kAdd, kRelu, kCap}, apply),
          kind("batch_norm_backward", {kAffine}, backward),
          kind("batch_norm_relu_backward", {kAffine, kCap}, relu_backward),
          kind("channel_affine", {}, affine, kOfFewRoundings),
          kind("channel_affine_relu", {kAdd, kCap}, affine_relu)};
}

}  // namespace facula::kernels
