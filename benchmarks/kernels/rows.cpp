// What goes over rows: softmax, its gradients and reductions of [m, n, k] along n, losses of n
// pairs, and cross-entropy of n samples and c classes. Losses: reduction 0 for the mean, 1 for the
// sum, 2 for none. Those of pairs: loss 0 for the square, 1 for the magnitude, 2 for Huber's, 3 for
// cross-entropy of logits. cross-entropy and nll_loss, which takes k positions of each sample:
// weight 0 or 1, ignore 1 to leave out a third of the labels, smooth in percent.
#include <algorithm>

#include "base/check.h"
#include "benchmarks/kernels/problem.h"
#include "ops/attrs/cross_entropy_loss.h"
#include "ops/attrs/cross_entropy_loss_backward.h"
#include "ops/attrs/log_softmax.h"
#include "ops/attrs/log_softmax_backward.h"
#include "ops/attrs/logsumexp.h"
#include "ops/attrs/nll_loss.h"
#include "ops/attrs/nll_loss_backward.h"
#include "ops/attrs/pair_loss.h"
#include "ops/attrs/softmax.h"
#include "ops/attrs/softmax_backward.h"
#include "ops/attrs/var_mean.h"
#include "ops/schema/reduction.h"

namespace facula::kernels {
namespace {

Sizes draw(Random& random) {
  Sizes v = {{"m", random.integer(1, 40)}, {"n", random.integer(1, 300)}, {"k", 1}};
  if (random.one_in(2)) v["k"] = random.integer(1, 40);
  if (random.one_in(8)) v = {{"m", 1}, {"n", random.integer(1, 200000)}, {"k", 1}};
  return v;
}

/// So many samples that their loss is not nearly 0.
Sizes draw_classes(Random& random) {
  Sizes v = {{"n", random.integer(4, 150)}, {"c", random.integer(2, 40)}};
  if (random.one_in(4)) v["c"] = random.integer(100, 1100);
  return v;
}

Tensor block(const Problem& p) { return empty({p["m"], p["n"], p["k"]}); }

template <class Attributes>
Operands softmax_along_n(const Problem& p) {
  return {{block(p)}, attributes(Attributes{1})};
}

/// Of products every factor costs some accuracy.
Sizes draw_short(Random& random) {
  Sizes v = draw(random);
  v["n"] = std::min<std::int64_t>(v["n"], 2000);
  return v;
}
/// Products of many neither vanish nor overflow.
Tensor near_one(IntList sizes) { return 0.98 + rand(sizes) * 0.04; }
Tensor probabilities(IntList sizes) { return softmax(randn(sizes), 1); }
Tensor log_probabilities(IntList sizes) { return log_softmax(randn(sizes), 1); }

/// So many rows that the gradients of some are not nearly 0, as for two equal elements of grad.
Sizes draw_gradients(Random& random) {
  Sizes v = draw(random);
  v["m"] += 4;
  return v;
}
/// Of positive gradients: their sum loses no digits.
template <class Attributes, Draw kOutput>
Operands softmax_backward_along_n(const Problem& p) {
  return {{{block(p), positive}, {block(p), kOutput}}, attributes(Attributes{1})};
}

template <Draw kDraw>
Operands reduced(const Problem& p) {
  return {{{block(p), kDraw}}, attributes(ReductionAttrs{{1}, false})};
}

Operands variance(const Problem& p) {
  return {{{block(p), positive}}, attributes(ops::var_mean_attrs{{1}, 0, false})};
}

Operands powers(const Problem& p) {
  return {{block(p)}, attributes(ops::logsumexp_attrs{{1}, false})};
}

constexpr std::string_view kReductions[] = {"mean", "sum", "none"};

/// Of sums of many pairs.
Sizes draw_pairs(Random& random) {
  return {{"n", random.one_in(2) ? random.integer(1, 2000) : random.integer(1, 300000)}};
}
Tensor uniform(IntList sizes) { return rand(sizes); }

Operands loss_of_pairs(const Problem& p) {
  static constexpr std::string_view kLosses[] = {"squared_error", "absolute_error", "huber_error",
                                                 "logit_cross_entropy"};
  check<ValueError>(p["loss"] <= 3 && p["reduction"] <= 1,
                    "problem: the loss is 0 to 3, its reduction 0 or 1");
  return {{empty({p["n"]}), {empty({p["n"]}), uniform}},
          attributes(ops::pair_loss_attrs{kLosses[p["loss"]], kReductions[p["reduction"]], 1.0})};
}

/// Labels of which a third is ignored where asked for, but never the first.
Operand labels(const Problem& p, const Dims& sizes) {
  Tensor classes = randint(0, p["c"], sizes);
  if (p["ignore"] == 0) return {classes, nullptr};
  classes = where(randint(0, 3, sizes) == 0, -100, classes);
  flatten(classes)[0].fill_(0);
  return {classes, nullptr};
}
Operand labels(const Problem& p) { return labels(p, {p["n"]}); }

Operand weights(const Problem& p) {
  return p["weight"] ? Operand(per_channel(p["c"]), positive) : Operand(Tensor());
}

template <class Attributes>
std::shared_ptr<const void> options(const Problem& p) {
  check<ValueError>(p["reduction"] <= 2, "problem: the reduction is 0, 1 or 2");
  return attributes(
      Attributes{kReductions[p["reduction"]], -100, static_cast<double>(p["smooth"]) / 100});
}

Operands loss(const Problem& p) {
  return {{empty({p["n"], p["c"]}), labels(p), weights(p)},
          options<ops::cross_entropy_loss_attrs>(p)};
}

Operands loss_backward(const Problem& p) {
  const bool of_each = p["reduction"] == 2;
  return {{{of_each ? empty({p["n"]}) : empty({}), positive},
           {empty({p["n"], p["c"]}), log_probabilities},
           labels(p),
           weights(p)},
          options<ops::cross_entropy_loss_backward_attrs>(p)};
}

Sizes draw_scores(Random& random) {
  Sizes v = draw_classes(random);
  if (random.one_in(2)) v["k"] = random.integer(1, 60);
  return v;
}
Dims positions(const Problem& p) { return p["k"] == 1 ? Dims{p["n"]} : Dims{p["n"], p["k"]}; }
Operand scores(const Problem& p) {
  Dims sizes = positions(p);
  sizes.insert(1, p["c"]);
  return {empty(sizes), log_probabilities};
}

template <class Attributes>
std::shared_ptr<const void> nll_options(const Problem& p) {
  check<ValueError>(p["reduction"] <= 2, "problem: the reduction is 0, 1 or 2");
  return attributes(Attributes{kReductions[p["reduction"]], -100});
}
Operands picked(const Problem& p) {
  return {{scores(p), labels(p, positions(p)), weights(p)}, nll_options<ops::nll_loss_attrs>(p)};
}
Operands picked_backward(const Problem& p) {
  const Dims grad = p["reduction"] == 2 ? positions(p) : Dims{};
  return {{{empty(grad), positive}, scores(p), labels(p, positions(p)), weights(p)},
          nll_options<ops::nll_loss_backward_attrs>(p)};
}

}  // namespace

std::vector<Kind> rows() {
  const std::vector<Size> block = {{"m", 1}, {"n"}, {"k", 1}};
  const std::vector<Size> classes = {
      {"n"}, {"c"}, {"weight", 0, 1}, {"ignore", 0, 1}, {"smooth", 0, 30}, {"reduction", 0, 2}};
  const std::vector<Size> places = {
      {"n"}, {"c"}, {"k", 1}, {"weight", 0, 1}, {"ignore", 0, 1}, {"reduction", 0, 2}};
  // Differences of numbers that may be nearly equal, and products of up to 2,000.
  constexpr double kOfDifferences = 5e-6, kOfFactors = 1e-5;
  const auto reduction = [&](const char* op, auto make, double most_error = kOfFewRoundings) {
    return Kind{op, block, false, draw, make, nullptr, most_error};
  };
  return {
      {"softmax", block, false, draw, softmax_along_n<ops::softmax_attrs>, nullptr},
      {"log_softmax", block, false, draw, softmax_along_n<ops::log_softmax_attrs>, nullptr},
      {"softmax_backward", block, false, draw_gradients,
       softmax_backward_along_n<ops::softmax_backward_attrs, probabilities>, nullptr,
       kOfDifferences},
      {"log_softmax_backward", block, false, draw_gradients,
       softmax_backward_along_n<ops::log_softmax_backward_attrs, log_probabilities>, nullptr,
       kOfDifferences},
      {"pair_loss",
       {{"n"}, {"loss", 0, 3}, {"reduction", 0, 1}},
       false,
       draw_pairs,
       loss_of_pairs,
       nullptr},
      {"cross_entropy_loss", classes, false, draw_classes, loss, nullptr},
      {"cross_entropy_loss_backward", classes, false, draw_classes, loss_backward, nullptr},
      {"nll_loss", places, false, draw_scores, picked, nullptr},
      {"nll_loss_backward", places, false, draw_scores, picked_backward, nullptr},
      reduction("sum", reduced<positive>),
      reduction("mean", reduced<positive>),
      {"prod", block, false, draw_short, reduced<near_one>, nullptr, kOfFactors},
      reduction("l1_norm", reduced<normal>),
      reduction("l2_norm", reduced<normal>),
      reduction("logsumexp", powers),
      reduction("var_mean", variance),
      reduction("amax", reduced<normal>, kOfNone),
      reduction("amin", reduced<normal>, kOfNone),
  };
}

}  // namespace facula::kernels
