// Naming the call in errors of functions that are no ops.
#pragma once

#include <facula/dims.h>
#include <facula/error.h>

namespace facula::runtime {

/// Throws `error`, which is being handled, again; unless its message names the call, it says that
/// it arose in name(sizes).
[[noreturn, gnu::cold]] void rethrow_in_call(const Error& error, const char* name, IntList sizes);

/// The result of `run()`, whose errors name the call.
template <class F>
auto in_call(const char* name, IntList sizes, F&& run) {
  try {
    return run();
  } catch (const Error& error) {
    rethrow_in_call(error, name, sizes);
  }
}

}  // namespace facula::runtime
