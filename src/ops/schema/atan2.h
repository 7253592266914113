#pragma once

#include "ops/schema/scalar.h"

namespace facula::scalar {

/// The angle of the point (b, a), with the special values of C.
template <class T>
FACULA_FN T atan2(T a, T b) {
  const T up = abs(a), along = abs(b);
  const T ratio =
      select((up == along) & !isnan(up), select(up == K<T>(0), K<T>(0), K<T>(1)), up / along);
  const T angle = atan(ratio);
  const T whole = select(copysign(K<T>(1), b) < K<T>(0), K<T>(3.141592653589793) - angle, angle);
  return copysign(whole, a);
}

}  // namespace facula::scalar
