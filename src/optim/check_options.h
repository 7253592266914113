// What the options of optimizers and schedules have in common.
#pragma once

#include <cmath>

#include "base/check.h"

namespace facula::optim {

inline void check_not_negative(double value, const char* owner, const char* option) {
  check<ValueError>(value >= 0 && std::isfinite(value),
                    "{}: option {} is {}, must be a number >= 0", owner, option, value);
}

inline void check_positive(double value, const char* owner, const char* option) {
  check<ValueError>(value > 0 && std::isfinite(value), "{}: option {} is {}, must be positive",
                    owner, option, value);
}

}  // namespace facula::optim
