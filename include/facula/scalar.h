// A number whose type takes part in type promotion the way a Python number does.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include <facula/dtype.h>

namespace facula {

/// A C++ number passed where a tensor is expected: it keeps the tensor's dtype unless it belongs to
/// a higher category (bool < integer < floating), exactly as in PyTorch.
class Scalar {
 public:
  constexpr Scalar(bool value) : kind_(kBool), integer_(value) {}
  /// Throws ValueError for unsigned numbers of 2^63 and above, which int64 does not hold.
  template <std::integral T>
  constexpr Scalar(T value) : kind_(kInt64), integer_(static_cast<std::int64_t>(value)) {
    if (std::unsigned_integral<T> && integer_ < 0) refuse(static_cast<std::uint64_t>(value));
  }
  template <std::floating_point T>
  constexpr Scalar(T value) : kind_(kFloat64), floating_(static_cast<double>(value)) {}

  /// kBool, kInt64 or kFloat64.
  constexpr DType dtype() const { return kind_; }
  constexpr bool is_floating() const { return kind_ == kFloat64; }
  constexpr double to_double() const {
    return is_floating() ? floating_ : static_cast<double>(integer_);
  }
  constexpr std::int64_t to_int() const {
    return is_floating() ? static_cast<std::int64_t>(floating_) : integer_;
  }
  FACULA_API std::string str() const;

 private:
  [[noreturn]] FACULA_API static void refuse(std::uint64_t value);

  DType kind_;
  union {
    std::int64_t integer_;
    double floating_;
  };
};

}  // namespace facula
