// dtypes, devices, shapes and scalars as text, and type promotion.
#include <fmt/format.h>

#include <charconv>

#include <facula/device.h>
#include <facula/dims.h>
#include <facula/dtype.h>
#include <facula/scalar.h>

#include "base/check.h"

namespace facula {

const char* name_of(DType dtype) {
  constexpr const char* kNames[kDTypeCount] = {"float32", "float64", "int32",    "int64", "uint8",
                                               "bool",    "float16", "bfloat16", "int8",  "int16"};
  return kNames[static_cast<int>(dtype)];
}

namespace {

// Rank within PyTorch's promotion lattice; unrelated pairs (uint8/int8, float16/bfloat16) are
// resolved separately.
int promotion_rank(DType dtype) {
  switch (dtype) {
    case kBool: return 0;
    case kUInt8: return 1;
    case kInt8: return 1;
    case kInt16: return 2;
    case kInt32: return 3;
    case kInt64: return 4;
    case kFloat16: return 5;
    case kBFloat16: return 5;
    case kFloat32: return 6;
    case kFloat64: return 7;
  }
  return 0;
}

DType default_dtype = kFloat32;

}  // namespace

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  const int rank_a = promotion_rank(a), rank_b = promotion_rank(b);
  if (rank_a == rank_b) return rank_a == 1 ? kInt16 : kFloat32;
  return rank_a > rank_b ? a : b;
}

DType get_default_dtype() { return default_dtype; }

void set_default_dtype(DType dtype) {
  check<DTypeError>(kFloatingTypes.contains(dtype),
                    "set_default_dtype: {} is not float32 or float64", name_of(dtype));
  default_dtype = dtype;
}

Device::Device(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  bool valid = true;
  if (name == "cpu") {
    type = DeviceType::cpu;
  } else if (name == "cuda") {
    type = DeviceType::cuda;
  } else if (name == "null") {
    type = DeviceType::null;
  } else {
    valid = false;
  }
  if (valid && colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    valid = error == std::errc() && end == digits.data() + digits.size() && index >= 0;
    // There is one host, and one null device.
    valid &= type == DeviceType::cuda || index == 0;
  }
  check<DeviceError>(valid, "\"{}\" is no device; use \"cpu\", \"cuda\", \"cuda:N\" or \"null\"",
                     text);
}

std::string Device::str() const {
  switch (type) {
    case DeviceType::cpu: return "cpu";
    case DeviceType::cuda: return fmt::format("cuda:{}", index);
    case DeviceType::null: return "null";
  }
  return "";
}

std::string IntList::str() const { return fmt::format("[{}]", fmt::join(begin(), end(), ", ")); }

bool operator==(IntList a, IntList b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

void Dims::too_many() {
  fail<ShapeError>(
      "a shape, or an op's list of integers, with more than {0} entries; tensors have at most {0} "
      "dimensions: merge some with flatten() or reshape()",
      kMaxDims);
}

void Scalar::refuse(std::uint64_t value) {
  fail<ValueError>(
      "{} as a number beside tensors: int64 holds at most 9223372036854775807; pass a "
      "double",
      value);
}

std::string Scalar::str() const {
  if (kind_ == kBool) return integer_ ? "true" : "false";
  return is_floating() ? fmt::format("{}", floating_) : fmt::format("{}", integer_);
}

}  // namespace facula
