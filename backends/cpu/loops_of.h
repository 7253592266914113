// Kernels exist for float32 and float64: choosing among them by element type.
#pragma once

#include <type_traits>

namespace facula::cpu {

/// The member of `kernels` for elements of type T.
template <class T, class Kernels>
const auto& loops_of(const Kernels& kernels) {
  if constexpr (std::is_same_v<T, float>) {
    return kernels.f32;
  } else {
    static_assert(std::is_same_v<T, double>);
    return kernels.f64;
  }
}

}  // namespace facula::cpu
