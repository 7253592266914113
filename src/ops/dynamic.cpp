#include "ops/dynamic.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"

namespace facula {
namespace ops {

// --- Conversion of arguments ---------------------------------------------------------------------

namespace {

const char* kind_name(Argument::Kind kind) {
  switch (kind) {
    case Argument::Kind::none: return "None";
    case Argument::Kind::tensor: return "a tensor";
    case Argument::Kind::tensors: return "a list of tensors";
    case Argument::Kind::floating: return "a float";
    case Argument::Kind::integer: return "an int";
    case Argument::Kind::boolean: return "a bool";
    case Argument::Kind::integers: return "a list of ints";
    case Argument::Kind::dtype: return "a dtype";
    case Argument::Kind::string: return "a string";
  }
  return "";
}

}  // namespace

void DynamicArguments::wrong(std::size_t i, const char* expected) const {
  fail<ValueError>("{}: argument {} is {}, expected {}", op_, names_[i], kind_name(values_[i].kind),
                   expected);
}

const Tensor& DynamicArguments::tensor(std::size_t i) const {
  if (values_[i].kind != Argument::Kind::tensor) wrong(i, "a tensor");
  return values_[i].tensor;
}

const Tensor& DynamicArguments::optional_tensor(std::size_t i) const {
  return is_none(i) ? values_[i].tensor : tensor(i);
}

const std::vector<Tensor>& DynamicArguments::tensors(std::size_t i) const {
  if (values_[i].kind != Argument::Kind::tensors) wrong(i, "a list of tensors");
  return values_[i].tensors;
}

double DynamicArguments::floating(std::size_t i) const {
  const Argument& value = values_[i];
  if (value.kind == Argument::Kind::floating) return value.floating;
  if (value.kind == Argument::Kind::integer) return static_cast<double>(value.integer);
  wrong(i, "a float");
}

std::int64_t DynamicArguments::integer(std::size_t i) const {
  if (values_[i].kind != Argument::Kind::integer) wrong(i, "an int");
  return values_[i].integer;
}

bool DynamicArguments::boolean(std::size_t i) const {
  if (values_[i].kind != Argument::Kind::boolean) wrong(i, "a bool");
  return values_[i].integer != 0;
}

const std::vector<std::int64_t>& DynamicArguments::integers(std::size_t i) const {
  if (values_[i].kind != Argument::Kind::integers) wrong(i, "a list of ints");
  return values_[i].integers;
}

DType DynamicArguments::dtype(std::size_t i) const {
  if (values_[i].kind != Argument::Kind::dtype) wrong(i, "a dtype");
  return values_[i].dtype;
}

std::string_view DynamicArguments::string(std::size_t i) const {
  if (values_[i].kind != Argument::Kind::string) wrong(i, "a string");
  return values_[i].string;
}

Generator* DynamicArguments::generator(std::size_t i) const {
  if (!is_none(i)) wrong(i, "None, which is the default generator");
  return nullptr;
}

bool DynamicArguments::is_number(std::size_t i) const {
  const Argument::Kind kind = values_[i].kind;
  return kind == Argument::Kind::floating || kind == Argument::Kind::integer ||
         kind == Argument::Kind::boolean;
}

Scalar DynamicArguments::scalar(std::size_t i) const {
  const Argument& value = values_[i];
  switch (value.kind) {
    case Argument::Kind::floating: return value.floating;
    case Argument::Kind::integer: return value.integer;
    case Argument::Kind::boolean: return value.integer != 0;
    default: wrong(i, "a number");
  }
}

std::optional<double> DynamicArguments::optional_floating(std::size_t i) const {
  return is_none(i) ? std::nullopt : std::optional(floating(i));
}

std::optional<std::int64_t> DynamicArguments::optional_integer(std::size_t i) const {
  return is_none(i) ? std::nullopt : std::optional(integer(i));
}

std::optional<DType> DynamicArguments::optional_dtype(std::size_t i) const {
  return is_none(i) ? std::nullopt : std::optional(dtype(i));
}

// --- Signatures ----------------------------------------------------------------------------------

namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

std::vector<Parameter> parameters_of(std::string_view signature) {
  const std::size_t open = signature.find('('), close = signature.rfind(") ->");
  const std::string_view list = signature.substr(open + 1, close - open - 1);
  std::vector<Parameter> parameters;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size()) depth += list[i] == '[' ? 1 : list[i] == ']' ? -1 : 0;
    if (i < list.size() && (list[i] != ',' || depth > 0)) continue;
    const std::string_view entry = trimmed(list.substr(start, i - start));
    start = i + 1;
    if (entry.empty()) continue;
    const std::size_t space = entry.find(' '), equals = entry.find('=');
    Parameter parameter;
    parameter.type = entry.substr(0, space);
    parameter.name =
        trimmed(entry.substr(space, equals == entry.npos ? entry.npos : equals - space));
    parameter.has_default = equals != entry.npos;
    if (parameter.has_default) parameter.default_value = trimmed(entry.substr(equals + 1));
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

namespace {

std::vector<std::int64_t> parse_integers(std::string_view text) {
  std::vector<std::int64_t> values;
  const char* p = text.data();
  const char* end = p + text.size();
  while (p < end) {
    std::int64_t value = 0;
    const auto result = std::from_chars(p, end, value);
    if (result.ec == std::errc()) values.push_back(value);
    p = result.ec == std::errc() ? result.ptr : p + 1;
  }
  return values;
}

DType parse_dtype(std::string_view name) {
  int i = 0;
  while (i < kDTypeCount && name != name_of(static_cast<DType>(i))) ++i;
  check<ValueError>(i < kDTypeCount, "call: unknown dtype {} in a signature", name);
  return static_cast<DType>(i);
}

Argument default_argument(const Parameter& parameter) {
  const std::string& text = parameter.default_value;
  if (text == "None") return {};
  if (parameter.type.starts_with("bool")) return text == "True";
  if (parameter.type.starts_with("int[")) return parse_integers(text);
  if (parameter.type.starts_with("int")) return parse_integers(text).at(0);
  if (parameter.type.starts_with("str")) return text.substr(1, text.size() - 2);
  if (parameter.type.starts_with("dtype")) return parse_dtype(text);
  double number = 0;  // std::stod would read it as the user's locale writes numbers
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool is_list(const Parameter& parameter) { return parameter.type.starts_with("int["); }

}  // namespace

DynamicArguments bind(const DynamicOp& op, const std::vector<Argument>& positional,
                      const NamedArguments& named) {
  const std::vector<Parameter> parameters = parameters_of(op.signature);
  check<ValueError>(positional.size() <= parameters.size(),
                    "{}: {} arguments given, the signature is {}", op.name, positional.size(),
                    op.signature);
  std::vector<std::string> names;
  std::vector<Argument> values(positional);
  for (const auto& [name, value] : named) {
    const bool known = std::any_of(parameters.begin(), parameters.end(),
                                   [&name = name](const Parameter& p) { return p.name == name; });
    check<ValueError>(known, "{}: no argument is called {}; the signature is {}", op.name, name,
                      op.signature);
    const auto times = std::count_if(named.begin(), named.end(),
                                     [&name = name](const auto& n) { return n.first == name; });
    check<ValueError>(times == 1, "{}: argument {} is given {} times", op.name, name, times);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    names.push_back(parameter.name);
    const auto by_name = std::find_if(named.begin(), named.end(), [&](const auto& entry) {
      return entry.first == parameter.name;
    });
    if (i < positional.size()) {
      check<ValueError>(by_name == named.end(), "{}: argument {} is given twice", op.name,
                        parameter.name);
    } else if (by_name != named.end()) {
      values.push_back(by_name->second);
    } else {
      check<ValueError>(parameter.has_default, "{}: argument {} is missing; the signature is {}",
                        op.name, parameter.name, op.signature);
      values.push_back(default_argument(parameter));
    }
    if (is_list(parameter) && values[i].kind == Argument::Kind::integer) {
      values[i] = std::vector<std::int64_t>{values[i].integer};
    }
  }
  return {op.name, std::move(names), std::move(values)};
}

const DynamicOp* find_dynamic_op(std::string_view name) {
  const DynamicOp* end = kDynamicOps + kDynamicOpCount;
  const DynamicOp* found = std::lower_bound(
      kDynamicOps, end, name,
      [](const DynamicOp& op, std::string_view wanted) { return op.name < wanted; });
  return found != end && found->name == name ? found : nullptr;
}

}  // namespace ops

Argument::Argument() = default;
Argument::Argument(NoneType) {}
Argument::Argument(Tensor value) : kind(Kind::tensor), tensor(std::move(value)) {}
Argument::Argument(std::vector<Tensor> values) : kind(Kind::tensors), tensors(std::move(values)) {}
Argument::Argument(double value) : kind(Kind::floating), floating(value) {}
Argument::Argument(float value) : Argument(static_cast<double>(value)) {}
Argument::Argument(std::int64_t value) : kind(Kind::integer), integer(value) {}
Argument::Argument(int value) : Argument(static_cast<std::int64_t>(value)) {}
Argument::Argument(bool value) : kind(Kind::boolean), integer(value) {}
Argument::Argument(std::vector<std::int64_t> values)
    : kind(Kind::integers), integers(std::move(values)) {}
Argument::Argument(const Dims& values) : Argument(IntList(values).vec()) {}
Argument::Argument(DType value) : kind(Kind::dtype), dtype(value) {}
Argument::Argument(std::string value) : kind(Kind::string), string(std::move(value)) {}
Argument::Argument(const char* value) : Argument(std::string(value)) {}
Argument::Argument(const Argument&) = default;
Argument::Argument(Argument&&) noexcept = default;
Argument& Argument::operator=(const Argument&) = default;
Argument& Argument::operator=(Argument&&) noexcept = default;
Argument::~Argument() = default;

std::vector<Tensor> call(std::string_view name, const std::vector<Argument>& arguments,
                         const NamedArguments& named) {
  if (const ops::DynamicOp* op = ops::find_dynamic_op(name)) {
    return op->call(ops::bind(*op, arguments, named));
  }
  const bool in_place = name.ends_with('_');
  const ops::DynamicOp* op =
      in_place ? ops::find_dynamic_op(name.substr(0, name.size() - 1)) : nullptr;
  check<ValueError>(op && op->call_in_place,
                    "call: there is no op or in-place variant called \"{}\"; see op_names()", name);
  return op->call_in_place(ops::bind(*op, arguments, named));
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  names.reserve(ops::kDynamicOpCount);
  for (std::size_t i = 0; i < ops::kDynamicOpCount; ++i) {
    names.emplace_back(ops::kDynamicOps[i].name);
  }
  return names;
}

}  // namespace facula
