#include "ops/schema/symbolic.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <tuple>
#include <unordered_map>

#include <facula/error.h>

#include "base/check.h"

namespace facula::scalar {
namespace {

using Instruction = SymbolicProgram::Instruction;

SymbolicNodePtr leaf(SymbolicOp op, double value) {
  return std::make_shared<const SymbolicNode>(SymbolicNode{op, value});
}

/// How an operation is written: `a symbol b`, or `name(a, b, c)`.
struct Spelling {
  const char* text;
  bool infix;
};

Spelling spelling(SymbolicOp op) {
  switch (op) {
    case SymbolicOp::input:
    case SymbolicOp::constant: return {"", false};
    case SymbolicOp::negate: return {"-", false};
    case SymbolicOp::complement: return {"!", false};
    case SymbolicOp::fma: return {"fma", false};
    case SymbolicOp::select:
      return {"select", false};
      // clang-format off
#define FACULA_CALL(name) case SymbolicOp::name: return {#name, false};
#define FACULA_INFIX(name, symbol) case SymbolicOp::name: return {#symbol, true};
      // clang-format on
      FACULA_SYMBOLIC_UNARY(FACULA_CALL)
      FACULA_SYMBOLIC_BINARY(FACULA_CALL)
      FACULA_SYMBOLIC_TEST(FACULA_CALL)
      FACULA_SYMBOLIC_ARITHMETIC(FACULA_INFIX)
      FACULA_SYMBOLIC_COMPARISON(FACULA_INFIX)
      FACULA_SYMBOLIC_LOGIC(FACULA_INFIX)
#undef FACULA_CALL
#undef FACULA_INFIX
  }
  return {"", false};
}

double apply(const Instruction& i, std::span<const double> inputs, double a, double b, double c) {
  switch (i.op) {
    case SymbolicOp::input: return inputs[static_cast<size_t>(i.value)];
    case SymbolicOp::constant: return i.value;
    case SymbolicOp::negate: return -a;
    case SymbolicOp::complement: return a == 0;
    case SymbolicOp::fma: return fma(a, b, c);
    case SymbolicOp::select: return select(a != 0, b, c);
    case SymbolicOp::both: return (a != 0) & (b != 0);
    case SymbolicOp::either:
      return (a != 0) | (b != 0);
      // clang-format off
#define FACULA_UNARY(name) case SymbolicOp::name: return name(a);
#define FACULA_BINARY(name) case SymbolicOp::name: return name(a, b);
#define FACULA_INFIX(name, symbol) case SymbolicOp::name: return a symbol b;
      // clang-format on
      FACULA_SYMBOLIC_UNARY(FACULA_UNARY)
      FACULA_SYMBOLIC_BINARY(FACULA_BINARY)
      FACULA_SYMBOLIC_TEST(FACULA_UNARY)
      FACULA_SYMBOLIC_ARITHMETIC(FACULA_INFIX)
      FACULA_SYMBOLIC_COMPARISON(FACULA_INFIX)
#undef FACULA_UNARY
#undef FACULA_BINARY
#undef FACULA_INFIX
  }
  return 0;
}

/// Flattens a graph of nodes, giving equal instructions one number.
class Flattener {
 public:
  explicit Flattener(std::vector<Instruction>& out) : out_(out) {}

  int visit(const SymbolicNode& node) {
    if (const auto found = visited_.find(&node); found != visited_.end()) return found->second;
    Instruction instruction{node.op, node.value, {-1, -1, -1}};
    for (size_t k = 0; k < node.args.size() && node.args[k]; ++k) {
      instruction.args[k] = visit(*node.args[k]);
    }
    // Constants are compared by their bits: -0 is not 0, and NaN equals itself.
    const Key key{node.op, std::bit_cast<uint64_t>(node.value), instruction.args};
    const auto [entry, added] = numbers_.try_emplace(key, static_cast<int>(out_.size()));
    if (added) out_.push_back(instruction);
    visited_.emplace(&node, entry->second);
    return entry->second;
  }

 private:
  using Key = std::tuple<SymbolicOp, uint64_t, std::array<int, 3>>;

  std::vector<Instruction>& out_;
  std::map<Key, int> numbers_;
  std::unordered_map<const SymbolicNode*, int> visited_;
};

std::string constant_source(double value) {
  if (isnan(value)) return "quiet_nan<T>()";
  if (isinf(value)) return value > 0 ? "infinity<T>()" : "(-infinity<T>())";
  char digits[32];  // the shortest decimal that reads back as `value`
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  std::string text(digits, end);
  // Without point and exponent C++ reads an integer, of which there is no -0 and a greatest.
  const bool is_integer = text.find_first_of(".e") == std::string::npos;
  if (is_integer && (text == "-0" || abs(value) >= 0x1p63)) text += ".0";
  return "K<T>(" + text + ")";
}

bool is_leaf(const Instruction& i) {
  return i.op == SymbolicOp::input || i.op == SymbolicOp::constant;
}

/// `text` holds the operands, ready to be used in a larger expression.
std::string instruction_source(const Instruction& i, const std::vector<std::string>& text) {
  if (i.op == SymbolicOp::constant) return constant_source(i.value);
  if (i.op == SymbolicOp::input) return fmt::format("x{}", static_cast<int>(i.value));
  const Spelling how = spelling(i.op);
  if (how.infix) return text[i.args[0]] + " " + how.text + " " + text[i.args[1]];
  std::string call = std::string(how.text) + "(";
  for (size_t k = 0; k < i.args.size() && i.args[k] >= 0; ++k) {
    call += (k == 0 ? "" : ", ") + text[i.args[k]];
  }
  return call + ")";
}

}  // namespace

Symbolic::Symbolic(double constant) : node_(leaf(SymbolicOp::constant, constant)) {}
Symbolic Symbolic::input(int index) { return Symbolic(leaf(SymbolicOp::input, index)); }
SymbolicMask SymbolicMask::input(int index) { return SymbolicMask(leaf(SymbolicOp::input, index)); }

SymbolicProgram::SymbolicProgram(const SymbolicNodePtr& result) {
  Flattener(instructions_).visit(*result);
}

int SymbolicProgram::input_count() const {
  int count = 0;
  for (const Instruction& i : instructions_) {
    if (i.op == SymbolicOp::input) count = std::max(count, static_cast<int>(i.value) + 1);
  }
  return count;
}

double SymbolicProgram::evaluate(std::span<const double> inputs) const {
  const int needed = input_count();
  check<ShapeError>(
      static_cast<size_t>(needed) <= inputs.size(),
      "symbolic expression: {} inputs given, but it uses x{}; pass one value per input",
      inputs.size(), needed - 1);
  std::vector<double> values;
  values.reserve(instructions_.size());
  for (const Instruction& i : instructions_) {
    const auto arg = [&](int k) { return i.args[k] < 0 ? 0.0 : values[i.args[k]]; };
    values.push_back(apply(i, inputs, arg(0), arg(1), arg(2)));
  }
  return values.back();
}

std::string SymbolicProgram::source() const {
  std::vector<int> uses(instructions_.size(), 0);
  for (const Instruction& i : instructions_) {
    for (const int arg : i.args) {
      if (arg >= 0) ++uses[arg];
    }
  }
  std::string statements;
  std::vector<std::string> text;
  text.reserve(instructions_.size());
  int names = 0;
  for (size_t n = 0; n + 1 < instructions_.size(); ++n) {
    const Instruction& i = instructions_[n];
    std::string expression = instruction_source(i, text);
    if (!is_leaf(i) && uses[n] > 1) {
      const std::string name = fmt::format("t{}", names++);
      statements += fmt::format("const auto {} = {};\n", name, expression);
      expression = name;
    } else if (spelling(i.op).infix) {
      expression = fmt::format("({})", expression);
    }
    text.push_back(std::move(expression));
  }
  return statements + "return " + instruction_source(instructions_.back(), text) + ";\n";
}

}  // namespace facula::scalar
