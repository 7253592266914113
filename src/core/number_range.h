// Which numbers fit which dtype.
#pragma once

#include <facula/scalar.h>

namespace facula {

/// True if `dtype` reaches as far as `value`, which floating dtypes may round.
bool in_range(DType dtype, std::int64_t value);

/// The greatest integer up to `value` that `dtype`, which reaches as far, has.
std::int64_t rounded_down(DType dtype, std::int64_t value);
/// The least integer from `value` on that `dtype`, which reaches as far, has.
std::int64_t rounded_up(DType dtype, std::int64_t value);

/// True if `value` can be stored as `dtype`, as PyTorch sees it: floating dtypes round and integers
/// cut fractions off, unsigned ones also take the negative integers whose magnitude they hold,
/// which wrap; bool takes everything.
bool fits(Scalar value, DType dtype);

/// Throws ValueError on behalf of `op` unless it does.
void check_fits(Scalar value, DType dtype, const char* op);

}  // namespace facula
