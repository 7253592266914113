#include "benchmarks/kernels/problem.h"

#include <algorithm>
#include <cctype>
#include <span>

#include <facula/ops.h>
#include <fmt/format.h>

#include "base/check.h"
#include "ops/attrs/conv2d.h"
#include "ops/attrs/conv2d_backward_input.h"
#include "ops/attrs/conv2d_backward_weight.h"
#include "ops/attrs/linear_fused.h"
#include "ops/schema/convolution.h"

namespace facula::kernels {
namespace {

constexpr const char* kNeeded[] = {"n", "c", "h", "oc"};
constexpr const char* kProductSizes[] = {"m", "n", "k"};

bool is_convolution(const std::string& op) { return op.starts_with("conv2d"); }

/// What a product has besides its sizes, and what that is where it is absent.
struct Option {
  const char* key;
  std::int64_t otherwise;
};
std::span<const Option> product_options(const std::string& op) {
  static constexpr Option kTransposed[] = {{"ta", 0}, {"tb", 0}};
  static constexpr Option kLinear[] = {{"bias", 1}, {"gelu", 0}};
  if (op == "mm") return kTransposed;
  return {kLinear, op == "linear" ? 1u : 2u};
}

/// Pairs of a short key that stands for two, with what it is where it is absent.
struct Both {
  const char* key;
  std::int64_t otherwise;
};
constexpr Both kBoth[] = {{"k", 1}, {"s", 1}, {"p", 0}, {"d", 1}};

ConvShape shape_of(const Problem& p) {
  const Dims stride = {p["sh"], p["sw"]}, padding = {p["ph"], p["pw"]},
             dilation = {p["dh"], p["dw"]};
  const std::int64_t groups = std::max<std::int64_t>(1, p["g"]);
  return conv_shape("conv2d", Dims{p["n"], p["c"], p["h"], p["w"]},
                    Dims{p["oc"], p["c"] / groups, p["kh"], p["kw"]},
                    {stride, padding, dilation, p["g"]});
}

}  // namespace

const std::vector<std::string>& ops() {
  static const std::vector<std::string> names = {
      "conv2d", "conv2d_backward_input", "conv2d_backward_weight", "mm", "linear", "linear_fused"};
  return names;
}

Problem::Problem(const std::string& text) {
  const auto fail = [&](const std::string& why) {
    check<ValueError>(false, "problem '{}': {}", text, why);
  };
  const std::size_t colon = text.find(':'), slash = text.find('/');
  op_ = text.substr(0, colon);
  if (std::find(ops().begin(), ops().end(), op_) == ops().end()) {
    fail(fmt::format("unknown op; one of {}", fmt::join(ops(), ", ")));
  }
  if (colon == std::string::npos) fail("':' and the sizes are missing");
  if (slash != std::string::npos) {
    const std::string layout = text.substr(slash + 1);
    if (layout != "nhwc" && layout != "nchw") fail("the layout is nhwc or nchw");
    channels_last_ = layout == "nhwc";
  }
  const std::string sizes = text.substr(colon + 1, slash - colon - 1);
  const auto read = [&](std::size_t& at, auto belongs) {
    const std::size_t begin = at;
    while (at < sizes.size() && belongs(static_cast<unsigned char>(sizes[at]))) ++at;
    return sizes.substr(begin, at - begin);
  };
  for (std::size_t at = 0; at < sizes.size();) {
    const std::string key = read(at, [](unsigned char c) { return std::isalpha(c) != 0; });
    const std::string number = read(at, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (key.empty() || number.empty() || number.size() > 9) {
      fail("the sizes are names and numbers in turn, such as n128c64");
    }
    values_[key] = std::stoll(number);
  }
  complete();
}

void Problem::complete() {
  const auto need = [&](const char* key) {
    check<ValueError>(values_.contains(key), "problem: {} needs the size {}", op_, key);
  };
  const auto otherwise = [&](const std::string& key, std::int64_t value) {
    values_.emplace(key, value);
  };
  if (is_convolution(op_)) {
    for (const char* key : kNeeded) need(key);
    otherwise("w", values_["h"]);
    otherwise("g", 1);
    otherwise("bias", 0);
    for (const Both& both : kBoth) {
      const std::string key = both.key;
      const auto given = values_.extract(key);
      const std::int64_t value = given.empty() ? both.otherwise : given.mapped();
      otherwise(key + "h", value);
      otherwise(key + "w", value);
    }
    check<ValueError>(values_.size() == 15,
                      "problem: {} has an unknown size among n, c, h, w, "
                      "oc, k, s, p, d, g, bias",
                      op_);
    shape_of(*this);  // checks the rest
  } else {
    for (const char* key : kProductSizes) need(key);
    std::string known = "m, n, k";
    for (const Option& option : product_options(op_)) {
      otherwise(option.key, option.otherwise);
      known += fmt::format(", {}", option.key);
    }
    check<ValueError>(values_.size() == 3 + product_options(op_).size(),
                      "problem: {} has an unknown size among {}", op_, known);
  }
}

Problem Problem::random(std::string_view op, std::mt19937& generator) {
  const auto integer = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator);
  };
  const auto one_in = [&](int n) { return integer(1, n) == 1; };
  for (;;) {
    Problem p;
    p.op_ = op;
    auto& v = p.values_;
    if (!is_convolution(p.op_)) {
      v = {{"m", integer(1, 90)}, {"n", integer(1, 90)}, {"k", integer(1, 200)}};
      for (const Option& option : product_options(p.op_)) v[option.key] = integer(0, 1);
      if (one_in(8)) v["k"] = integer(1, 3000);
      if (one_in(8)) v["m"] = integer(1, 700);
      p.complete();
      return p;
    }
    v = {{"n", integer(1, 5)},
         {"h", integer(1, 18)},
         {"w", integer(1, 18)},
         {"k", one_in(3) ? 1 : 3},
         {"c", integer(1, 40)},
         {"oc", integer(1, 40)},
         {"bias", p.op_ == "conv2d" ? integer(0, 1) : 0}};
    if (one_in(8)) v["c"] = integer(100, 500);
    if (one_in(8)) v["oc"] = integer(100, 500);
    if (one_in(4)) v["k"] = integer(1, 7);
    if (one_in(8)) v.merge(std::map<std::string, std::int64_t>{{"kh", integer(1, 5)}});
    v["p"] = one_in(4) ? integer(0, 4) : v["k"] / 2;
    if (one_in(3)) v["s"] = integer(1, 3);
    if (one_in(6)) v["d"] = integer(1, 3);
    if (one_in(10)) {  // tiny images of a large batch
      v["n"] = integer(32, 70);
      v["h"] = v["w"] = integer(1, 3);
      v["c"] = integer(20, 80);
      v["oc"] = integer(20, 80);
    }
    if (one_in(10)) {  // downsampling
      v = {{"n", integer(1, 6)},
           {"c", integer(30, 100)},
           {"oc", integer(30, 100)},
           {"h", integer(6, 24)},
           {"w", integer(6, 24)},
           {"k", 3},
           {"s", 2},
           {"p", 1}};
    }
    if (one_in(4)) {
      v["g"] = one_in(2) ? v["c"] : integer(2, 4);
      v["c"] = v["g"] * (v["c"] == v["g"] ? 1 : integer(1, 12));
      v["oc"] = v["g"] * integer(1, 3);
    }
    p.channels_last_ = !one_in(4);
    try {
      p.complete();
      return p;
    } catch (const Error&) {  // the window does not fit: another one
    }
  }
}

std::string Problem::str() const {
  const Problem& p = *this;
  const auto size = [&](const std::string& key) { return key + std::to_string(p[key]); };
  const auto unless = [&](std::int64_t usual, const std::string& key) {
    return p[key] == usual ? "" : size(key);
  };
  if (!is_convolution(op_)) {
    std::string text = op_ + ":" + size("m") + size("n") + size("k");
    for (const Option& option : product_options(op_)) text += unless(option.otherwise, option.key);
    return text;
  }
  std::string text =
      op_ + ":" + size("n") + size("c") + size("h") + unless(p["h"], "w") + size("oc");
  for (const Both& both : kBoth) {
    const std::string key = both.key;
    if (p[key + "h"] != p[key + "w"]) {
      text += size(key + "h") + size(key + "w");
    } else if (p[key + "h"] != both.otherwise) {
      text += key + std::to_string(p[key + "h"]);
    }
  }
  return text + unless(1, "g") + unless(0, "bias") + (channels_last_ ? "" : "/nchw");
}

double Problem::flops() const {
  const Problem& p = *this;
  if (!is_convolution(op_)) return 2.0 * static_cast<double>(p["m"] * p["n"] * p["k"]);
  const ConvShape s = shape_of(p);
  return 2.0 * static_cast<double>(s.n * s.multiplications_per_image());
}

Call::Call(const Problem& p) {
  const MemoryFormat format = p.channels_last() ? kChannelsLast : kContiguous;
  const auto start = [&]<class Attributes>(OpId id, Attributes attributes) {
    for (const Tensor& input : inputs_) pointers_.push_back(&input);
    attributes_ = std::make_shared<const Attributes>(std::move(attributes));
    call_.reset(new facula::Call{facula::op(id), pointers_.data(),
                                 static_cast<std::uint32_t>(pointers_.size()), attributes_.get()});
  };
  if (p.op().starts_with("linear")) {
    inputs_ = {randn({p["m"], p["k"]}), randn({p["n"], p["k"]}),
               p["bias"] ? randn({p["n"]}) : Tensor()};
    prototype_ = empty({p["m"], p["n"]});
    if (p.op() == "linear") {
      start(OpId::linear, 0);
    } else {
      const std::string_view activation = p["gelu"] ? "gelu" : "relu";
      start(OpId::linear_fused, ops::linear_fused_attrs{activation, {}});
    }
    return;
  }
  if (p.op() == "mm") {
    const auto operand = [](std::int64_t rows, std::int64_t columns, bool transposed) {
      return transposed ? empty({columns, rows}).permute({1, 0}) : empty({rows, columns});
    };
    inputs_ = {operand(p["m"], p["k"], p["ta"] != 0), operand(p["k"], p["n"], p["tb"] != 0)};
    prototype_ = empty({p["m"], p["n"]});
    start(OpId::mm, 0);
    return;
  }
  const ConvShape s = shape_of(p);
  const Dims stride = {s.stride_h, s.stride_w}, padding = {s.pad_h, s.pad_w},
             dilation = {s.dilation_h, s.dilation_w};
  const auto images = [&](const Dims& sizes) { return empty(sizes).contiguous(format); };
  const Tensor weight = empty(s.weight_sizes());
  if (p.op() == "conv2d") {
    inputs_ = {images(s.input_sizes()), weight, p["bias"] ? empty({s.oc}) : Tensor()};
    prototype_ = empty(s.output_sizes()).contiguous(format);
    start(OpId::conv2d, ops::conv2d_attrs{stride, padding, dilation, s.groups});
  } else if (p.op() == "conv2d_backward_input") {
    inputs_ = {images(s.output_sizes()), weight};
    prototype_ = empty(s.input_sizes()).contiguous(format);
    start(OpId::conv2d_backward_input,
          ops::conv2d_backward_input_attrs{s.input_sizes(), stride, padding, dilation, s.groups});
  } else {
    inputs_ = {images(s.output_sizes()), images(s.input_sizes())};
    prototype_ = weight;
    start(OpId::conv2d_backward_weight,
          ops::conv2d_backward_weight_attrs{{s.kh, s.kw}, stride, padding, dilation, s.groups});
  }
}

void Call::fill() {
  for (Tensor& input : inputs_) {
    if (input.defined()) input.copy_(randn(input.sizes()));
  }
}

Refusal Call::refuse(const Implementation& implementation) const {
  Tensor out = prototype_;
  return implementation.refuse ? implementation.refuse({*call_, &out, 1}) : nullptr;
}

void Call::run(const Implementation& implementation, Tensor& result) const {
  implementation.run({*call_, &result, 1});
}

}  // namespace facula::kernels
