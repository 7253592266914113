// Naming the call in errors of functions made of other ops.
#pragma once

#include <initializer_list>
#include <string_view>

#include <facula/error.h>
#include <facula/tensor.h>

namespace facula {

/// Throws `error`, which is being handled, again; unless its message names the call, it says that
/// it arose in name(sizes), or in name(operands).
[[noreturn, gnu::cold]] void rethrow_in_call(const Error& error, std::string_view name,
                                             IntList sizes);
[[noreturn, gnu::cold]] void rethrow_in_call(const Error& error, std::string_view name,
                                             std::initializer_list<const Tensor*> operands);

/// The result of `run()`, whose errors name the call.
template <class F>
decltype(auto) in_call(const char* name, IntList sizes, F&& run) {
  try {
    return run();
  } catch (const Error& error) {
    rethrow_in_call(error, name, sizes);
  }
}
template <class F>
decltype(auto) in_call(const char* name, std::initializer_list<const Tensor*> operands, F&& run) {
  try {
    return run();
  } catch (const Error& error) {
    rethrow_in_call(error, name, operands);
  }
}

}  // namespace facula
