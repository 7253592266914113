// Calling ops by name: one table entry per op, generated from its signature.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <facula/call.h>

#include "ops/schema/op_def.h"

namespace facula::ops {

/// Arguments of a call by name, in signature order with defaults filled in, converted on access.
/// Conversions that do not fit throw ValueError naming op and argument.
class DynamicArguments {
 public:
  DynamicArguments(const char* op, std::vector<std::string> names, std::vector<Argument> values)
      : op_(op), names_(std::move(names)), values_(std::move(values)) {}

  const Tensor& tensor(std::size_t i) const;
  const Tensor& optional_tensor(std::size_t i) const;
  const std::vector<Tensor>& tensors(std::size_t i) const;
  double floating(std::size_t i) const;
  std::int64_t integer(std::size_t i) const;
  bool boolean(std::size_t i) const;
  const std::vector<std::int64_t>& integers(std::size_t i) const;
  DType dtype(std::size_t i) const;
  std::string_view string(std::size_t i) const;
  /// True if scalar() takes it: elementwise ops have overloads for a number in a tensor's place.
  bool is_number(std::size_t i) const;
  Scalar scalar(std::size_t i) const;
  std::optional<double> optional_floating(std::size_t i) const;
  std::optional<std::int64_t> optional_integer(std::size_t i) const;
  std::optional<DType> optional_dtype(std::size_t i) const;
  /// Calls by name always use the default generator.
  Generator* generator(std::size_t i) const;

 private:
  [[noreturn]] void wrong(std::size_t i, const char* expected) const;
  bool is_none(std::size_t i) const { return values_[i].kind == Argument::Kind::none; }

  const char* op_;
  std::vector<std::string> names_;
  std::vector<Argument> values_;
};

/// A parameter as a signature line declares it.
struct Parameter {
  std::string type, name, default_value;
  bool has_default = false;
};
/// The parameters of a signature line; the generator has checked its form.
std::vector<Parameter> parameters_of(std::string_view signature);

struct DynamicOp {
  const char* name;
  const char* signature;
  std::vector<Tensor> (*call)(const DynamicArguments& arguments);
  std::vector<Tensor> (*call_in_place)(const DynamicArguments& arguments);  ///< may be null
  OpDef (*define)();                                                        ///< of a primitive
  CompositeDef (*define_composite)();                                       ///< of a composite
};

/// Puts positional, named and default values into signature order. Throws ValueError where they do
/// not fit the signature.
DynamicArguments bind(const DynamicOp& op, const std::vector<Argument>& positional,
                      const NamedArguments& named);

/// Sorted by name.
extern const DynamicOp kDynamicOps[];
extern const std::size_t kDynamicOpCount;

/// Null if there is no such op.
const DynamicOp* find_dynamic_op(std::string_view name);

template <class... T>
std::vector<Tensor> as_vector(const std::tuple<T...>& results) {
  return std::apply([](const auto&... tensors) { return std::vector<Tensor>{tensors...}; },
                    results);
}

}  // namespace facula::ops
