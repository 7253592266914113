// What the options of all optimizers have in common.
#pragma once

#include <cmath>

#include "base/check.h"

namespace facula::optim {

inline void check_not_negative(double value, const char* optimizer, const char* option) {
  check<ValueError>(value >= 0 && std::isfinite(value),
                    "{}: option {} is {}, must be a number >= 0", optimizer, option, value);
}

}  // namespace facula::optim
