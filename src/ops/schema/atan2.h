#pragma once

#include "ops/schema/scalar.h"

namespace facula::scalar {

/// The angle of the point (b, a), with the special values of C: that of the smaller coordinate over
/// the larger one, added to or taken from the axis that the point is near to.
template <class T>
FACULA_FN T atan2(T a, T b) {
  const T up = abs(a), along = abs(b);
  const auto steep = up > along, left = copysign(K<T>(1), b) < K<T>(0);
  const T quotient = select(steep, along, up) / select(steep, up, along);
  const T slope =
      select((up == along) & !isnan(up), select(up == K<T>(0), K<T>(0), K<T>(1)), quotient);
  const T angle = atan(slope);
  const T near_axis = select(left, K<T>(3.141592653589793) - angle, angle);
  const T away = K<T>(1.5707963267948966) + select(left, angle, -angle);
  return copysign(select(steep, away, near_axis), a);
}

}  // namespace facula::scalar
