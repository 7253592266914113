#include "benchmarks/kernels/problem.h"

#include <cctype>

#include <fmt/format.h>

#include "base/check.h"
#include "core/tensor_impl.h"

namespace facula::kernels {
namespace {

const Kind& kind_of(const std::string& text) {
  const std::string op = text.substr(0, text.find(':'));
  if (const Kind* kind = find_kind(op)) return *kind;
  std::vector<std::string> known;
  for (const Kind& kind : kinds()) known.emplace_back(kind.op);
  fail<ValueError>("problem '{}': unknown op; one of {}", text, fmt::join(known, ", "));
}

}  // namespace

Problem::Problem(const std::string& text) : kind_(&kind_of(text)) {
  const auto wrong = [&](const std::string& why) {
    fail<ValueError>("problem '{}': {}", text, why);
  };
  const std::size_t colon = text.find(':'), slash = text.find('/');
  if (colon == std::string::npos) wrong("':' and the sizes are missing");
  if (slash != std::string::npos) {
    const std::string layout = text.substr(slash + 1);
    if (!kind_->images || (layout != "nhwc" && layout != "nchw")) {
      wrong("the layout is nhwc or nchw, of images only");
    }
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
      wrong("the sizes are names and numbers in turn, such as n128c64");
    }
    if (!values_.emplace(key, std::stoll(number)).second) wrong("'" + key + "' comes twice");
  }
  complete();
}

void Problem::complete() {
  Sizes given = std::move(values_);
  values_.clear();
  const auto take = [&](const std::string& key, std::int64_t otherwise) {
    const auto node = given.extract(key);
    return node.empty() ? otherwise : node.mapped();
  };
  std::vector<std::string> known;
  for (const Size& size : kind_->sizes) {
    const std::string key = size.key;
    known.push_back(key);
    const bool as_height = size.otherwise == Size::kAsHeight;
    const std::int64_t value = take(key, as_height ? values_.at("h") : size.otherwise);
    check<ValueError>(value >= 0, "problem: {} needs the size {}", kind_->op, key);
    check<ValueError>(size.most != 1 || value <= 1, "problem: {} is 0 or 1, got {}", key, value);
    for (const char* dimension : {"h", "w"}) {
      if (size.of_both) values_[key + dimension] = take(key + dimension, value);
    }
    if (!size.of_both) values_[key] = value;
  }
  if (given.empty()) return;
  fail<ValueError>("problem: {} has no size '{}', only {}", kind_->op, given.begin()->first,
                   fmt::join(known, ", "));
}

Problem Problem::random(const Kind& kind, Random& random) {
  Problem p(kind);
  p.values_ = kind.draw(random);
  for (const Size& size : kind.sizes) {
    if (size.most > 0) p.values_[size.key] = random.integer(0, size.most);
  }
  p.channels_last_ = !kind.images || !random.one_in(4);
  p.complete();
  return p;
}

std::int64_t Problem::operator[](const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? 0 : found->second;
}

std::string Problem::str() const {
  const Problem& p = *this;
  std::string text = std::string(kind_->op) + ":";
  for (const Size& size : kind_->sizes) {
    const std::string key = size.key;
    const auto write = [&](const std::string& name, std::int64_t value) {
      text += name + std::to_string(value);
    };
    if (size.of_both && p[key + "h"] != p[key + "w"]) {
      for (const char* dimension : {"h", "w"}) write(key + dimension, p[key + dimension]);
      continue;
    }
    const std::int64_t value = p[size.of_both ? key + "h" : key];
    const std::int64_t usual = size.otherwise == Size::kAsHeight ? p["h"] : size.otherwise;
    if (value != usual) write(key, value);
  }
  return text + (channels_last_ ? "" : "/nchw");
}

// In float64 the reference's own sums have a share in it: 2e-14 at most so far.
double Problem::most_error() const {
  constexpr double kOfDoubles = 1e-12;
  return (*this)["double"] ? kOfDoubles : kind_->most_error;
}

Call::Call(const Problem& p) : operands_(p.kind().make(p)) {
  for (const Operand& operand : operands_.tensors) pointers_.push_back(&operand.tensor);
  call_.reset(new facula::Call{*find_op(p.kind().op), pointers_.data(),
                               static_cast<std::uint32_t>(pointers_.size()),
                               operands_.attributes.get()});
  SmallVector<OutputSpec, 4> specs;
  Infer infer(*call_, specs);
  (*call_->op.def.infer)(infer);
  for (const OutputSpec& spec : specs) {
    prototypes_.push_back(new_strided(spec.sizes, spec.strides, spec.dtype, kCPU));
  }
}

void Call::fill() {
  for (Operand& operand : operands_.tensors) {
    if (operand.tensor.defined() && operand.draw) {
      operand.tensor.copy_(operand.draw(operand.tensor.sizes()));
    }
  }
}

std::vector<Tensor> Call::results() const {
  std::vector<Tensor> results;
  for (const Tensor& prototype : prototypes_) results.push_back(empty_like(prototype));
  return results;
}

std::size_t Call::bytes() const {
  std::size_t bytes = 0;
  for (const Tensor& result : prototypes_) bytes += result.nbytes();
  for (const Tensor* input : pointers_) bytes += input->defined() ? input->nbytes() : 0;
  return bytes;
}

Refusal Call::refuse(const Implementation& implementation) const {
  std::vector<Tensor> out = prototypes_;
  return implementation.refuse ? implementation.refuse({*call_, out.data(), out.size()}) : nullptr;
}

void Call::run(const Implementation& implementation, std::span<Tensor> results) const {
  implementation.run({*call_, results.data(), results.size()});
}

}  // namespace facula::kernels
