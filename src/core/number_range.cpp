#include "core/number_range.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/check.h"

namespace facula {
namespace {

/// Least and greatest value; bounds of int64 as doubles are exclusive above.
struct Range {
  double least, greatest;
};

/// Binary digits of a number, the implied one included.
int digits_of(DType dtype) {
  switch (dtype) {
    case kFloat16: return 11;
    case kBFloat16: return 8;
    case kFloat32: return 24;
    default: return 53;
  }
}

Range range_of(DType dtype) {
  switch (dtype) {
    case kFloat32: return {-0x1.fffffep127, 0x1.fffffep127};
    case kFloat64: return {-0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023};
    case kInt32: return {-0x1p31, 0x1p31 - 1};
    case kInt64: return {-0x1p63, 0x1p63};
    case kUInt8: return {0, 255};
    case kBool: return {0, 1};
    case kFloat16: return {-65504, 65504};
    case kBFloat16: return {-0x1.fep127, 0x1.fep127};
    case kInt8: return {-128, 127};
    case kInt16: return {-32768, 32767};
  }
  return {};
}

}  // namespace

bool in_range(DType dtype, std::int64_t value) {
  if (dtype == kInt64) return true;
  const Range range = range_of(dtype);
  return static_cast<double>(value) >= range.least && static_cast<double>(value) <= range.greatest;
}

std::int64_t rounded_down(DType dtype, std::int64_t value) {
  if (!is_floating_point(dtype)) return value;
  // -2^k has as many digits as 2^k - 1.
  const auto magnitude = static_cast<std::uint64_t>(value < 0 ? ~value : value);
  const int excess = static_cast<int>(std::bit_width(magnitude)) - digits_of(dtype);
  return excess > 0 ? value >> excess << excess : value;
}

std::int64_t rounded_up(DType dtype, std::int64_t value) {
  return value == INT64_MIN ? value : -rounded_down(dtype, -value);
}

bool fits(Scalar value, DType dtype) {
  if (dtype == kBool) return true;
  if (!value.is_floating()) {
    const std::int64_t integer = value.to_int();
    return in_range(dtype, integer) || (dtype == kUInt8 && integer < 0 && integer >= -255);
  }
  const double number = value.to_double();
  if (is_floating_point(dtype) && !std::isfinite(number)) return true;
  const Range range = range_of(dtype);
  return number >= range.least &&
         (number < range.greatest || (number == range.greatest && dtype != kInt64));
}

void check_fits(Scalar value, DType dtype, const char* op) {
  check<ValueError>(fits(value, dtype),
                    "{}: {} does not fit {}, which holds {} to {}; use such a value or convert the "
                    "tensor with to()",
                    op, value, name_of(dtype), range_of(dtype).least, range_of(dtype).greatest);
}

}  // namespace facula
