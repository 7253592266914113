// Operators on masks.
#include <facula/operators.h>

#include "base/check.h"

namespace facula {
namespace {

/// Elsewhere the symbols are bitwise on integers; logical results would be a silent surprise.
void check_mask(const char* symbol, const Tensor& t) {
  check<DTypeError>(
      t.dtype() == DType::boolean,
      "operator{}: an operand is {}{}, both must be bool; compare first, as in x != 0, "
      "or call logical_and, logical_or, logical_xor or logical_not",
      symbol, name_of(t.dtype()), t.sizes());
}

}  // namespace

Tensor operator&(const Tensor& a, const Tensor& b) {
  check_mask("&", a);
  check_mask("&", b);
  return logical_and(a, b);
}

Tensor operator|(const Tensor& a, const Tensor& b) {
  check_mask("|", a);
  check_mask("|", b);
  return logical_or(a, b);
}

Tensor operator^(const Tensor& a, const Tensor& b) {
  check_mask("^", a);
  check_mask("^", b);
  return logical_xor(a, b);
}

Tensor operator~(const Tensor& a) {
  check_mask("~", a);
  return logical_not(a);
}

}  // namespace facula
