// Calling ops by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <facula/tensor.h>

namespace facula {

/// A dynamically typed argument or result of an op. Calls hold many of them: what makes and ends
/// one is not repeated in each.
class FACULA_API Argument {
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

  Argument();
  Argument(NoneType);
  Argument(Tensor value);
  Argument(std::vector<Tensor> values);
  Argument(double value);
  Argument(float value);
  Argument(std::int64_t value);
  Argument(int value);
  Argument(bool value);
  Argument(std::vector<std::int64_t> values);
  Argument(const Dims& values);
  Argument(DType value);
  Argument(std::string value);
  Argument(const char* value);
  Argument(const Argument&);
  Argument(Argument&&) noexcept;
  Argument& operator=(const Argument&);
  Argument& operator=(Argument&&) noexcept;
  ~Argument();

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
