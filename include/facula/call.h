// Calling ops by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <facula/tensor.h>

namespace facula {

/// A dynamically typed argument or result of an op.
class Argument {
 public:
  enum class Kind : std::uint8_t {
    none,
    tensor,
    tensors,
    floating,
    integer,
    boolean,
    integers,
    dtype,
    string
  };

  Argument() = default;
  Argument(NoneType) {}
  Argument(Tensor value) : kind(Kind::tensor), tensor(std::move(value)) {}
  Argument(std::vector<Tensor> values) : kind(Kind::tensors), tensors(std::move(values)) {}
  Argument(double value) : kind(Kind::floating), floating(value) {}
  Argument(float value) : Argument(static_cast<double>(value)) {}
  Argument(std::int64_t value) : kind(Kind::integer), integer(value) {}
  Argument(int value) : Argument(static_cast<std::int64_t>(value)) {}
  Argument(bool value) : kind(Kind::boolean), integer(value) {}
  Argument(std::vector<std::int64_t> values) : kind(Kind::integers), integers(std::move(values)) {}
  Argument(Dims values) : Argument(IntList(values).vec()) {}
  Argument(DType value) : kind(Kind::dtype), dtype(value) {}
  Argument(std::string value) : kind(Kind::string), string(std::move(value)) {}
  Argument(const char* value) : Argument(std::string(value)) {}

  Kind kind = Kind::none;
  Tensor tensor;
  std::vector<Tensor> tensors;
  double floating = 0;
  std::int64_t integer = 0;
  std::vector<std::int64_t> integers;
  DType dtype = kFloat32;
  std::string string;
};

using NamedArguments = std::vector<std::pair<std::string, Argument>>;

/// Calls the op `name` with positional and named arguments; missing ones take their defaults.
/// Elementwise ops have in-place variants: "exp_" writes into its first argument and returns it.
/// Throws ValueError for an unknown op or argument, and whatever the op throws.
FACULA_API std::vector<Tensor> call(std::string_view name, const std::vector<Argument>& arguments,
                                    const NamedArguments& named = {});

/// Names of all ops, sorted, without those of in-place variants.
FACULA_API std::vector<std::string> op_names();

}  // namespace facula
