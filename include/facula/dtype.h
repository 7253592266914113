// Element types.
#pragma once

#include <cstddef>
#include <cstdint>

#include <facula/export.h>

namespace facula {

/// Element type of a tensor. float32/64, int32/64, uint8 and bool support arithmetic; float16,
/// bfloat16, int8 and int16 are storage types: convert them with `Tensor::to` to compute.
enum class DType : std::uint8_t {
  float32,
  float64,
  int32,
  int64,
  uint8,
  boolean,
  float16,
  bfloat16,
  int8,
  int16,
};

inline constexpr int kDTypeCount = 10;

inline constexpr DType kFloat32 = DType::float32;
inline constexpr DType kFloat64 = DType::float64;
inline constexpr DType kInt32 = DType::int32;
inline constexpr DType kInt64 = DType::int64;
inline constexpr DType kUInt8 = DType::uint8;
inline constexpr DType kBool = DType::boolean;
inline constexpr DType kFloat16 = DType::float16;
inline constexpr DType kBFloat16 = DType::bfloat16;
inline constexpr DType kInt8 = DType::int8;
inline constexpr DType kInt16 = DType::int16;

/// Bytes per element.
constexpr std::size_t size_of(DType dtype) {
  constexpr std::size_t kSizes[kDTypeCount] = {4, 8, 4, 8, 1, 1, 2, 2, 1, 2};
  return kSizes[static_cast<int>(dtype)];
}

constexpr bool is_floating_point(DType dtype) {
  return dtype == DType::float32 || dtype == DType::float64 || dtype == DType::float16 ||
         dtype == DType::bfloat16;
}

/// PyTorch's name without the prefix: "float32", "bool", ...
FACULA_API const char* name_of(DType dtype);

/// The dtype both operands of a binary operation are converted to (PyTorch's lattice).
FACULA_API DType promote_types(DType a, DType b);

/// The floating dtype new floating tensors get; float32 unless changed.
FACULA_API DType get_default_dtype();
FACULA_API void set_default_dtype(DType dtype);

/// A set of dtypes, as op definitions state what they accept.
struct DTypes {
  std::uint16_t bits = 0;

  constexpr bool contains(DType dtype) const { return bits >> static_cast<int>(dtype) & 1; }
  constexpr DTypes operator|(DTypes other) const {
    return {static_cast<std::uint16_t>(bits | other.bits)};
  }
  static constexpr DTypes of(DType dtype) {
    return {static_cast<std::uint16_t>(1u << static_cast<int>(dtype))};
  }
};

inline constexpr DTypes kFloatingTypes = DTypes::of(kFloat32) | DTypes::of(kFloat64);
inline constexpr DTypes kIntegralTypes =
    DTypes::of(kInt32) | DTypes::of(kInt64) | DTypes::of(kUInt8);
inline constexpr DTypes kNumericTypes = kFloatingTypes | kIntegralTypes;
inline constexpr DTypes kComputeTypes = kNumericTypes | DTypes::of(kBool);
inline constexpr DTypes kAllTypes = {(1u << kDTypeCount) - 1};

/// The C++ type of an element, mapped to its DType (`dtype_of<float> == kFloat32`).
template <class T>
inline constexpr DType dtype_of = T::facula_dtype;
template <>
inline constexpr DType dtype_of<float> = kFloat32;
template <>
inline constexpr DType dtype_of<double> = kFloat64;
template <>
inline constexpr DType dtype_of<std::int32_t> = kInt32;
template <>
inline constexpr DType dtype_of<std::int64_t> = kInt64;
template <>
inline constexpr DType dtype_of<std::uint8_t> = kUInt8;
template <>
inline constexpr DType dtype_of<bool> = kBool;
template <>
inline constexpr DType dtype_of<std::int8_t> = kInt8;
template <>
inline constexpr DType dtype_of<std::int16_t> = kInt16;

}  // namespace facula
