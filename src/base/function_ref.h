// A reference to a callable: what a function parameter needs, without std::function's ownership.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace facula {

template <class Signature>
class FunctionRef;

/// Two pointers, no allocation, one indirect call. The callable must outlive the reference, so take
/// it as a parameter and never store it.
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
           std::is_invocable_r_v<R, F&, Args...>) FunctionRef(F&& callable)
  noexcept  // NOLINT(google-explicit-constructor): lambdas at call sites
      : callable_(address(callable)), invoke_(&invoke<std::remove_reference_t<F>>) {}

  R operator()(Args... args) const { return invoke_(callable_, std::forward<Args>(args)...); }

 private:
  template <class F>
  static void* address(F& callable) noexcept {
    if constexpr (std::is_function_v<F>) {
      return reinterpret_cast<void*>(&callable);
    } else {
      return const_cast<void*>(static_cast<const void*>(std::addressof(callable)));
    }
  }

  template <class F>
  static R invoke(void* callable, Args... args) {
    F& function = *reinterpret_cast<F*>(callable);
    if constexpr (std::is_void_v<R>) {
      function(std::forward<Args>(args)...);
    } else {
      return function(std::forward<Args>(args)...);
    }
  }

  void* callable_;
  R (*invoke_)(void*, Args...);
};

}  // namespace facula
