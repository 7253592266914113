// How many parts of one size cover a number of elements.
#pragma once

#include <cstdint>

namespace facula::base {

constexpr std::int64_t divide_up(std::int64_t n, std::int64_t parts) {
  return (n + parts - 1) / parts;
}

}  // namespace facula::base
