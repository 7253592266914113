#include "runtime/in_call.h"

#include <string_view>

#include "base/check.h"
#include "base/rethrow.h"

namespace facula::runtime {

void rethrow_in_call(const Error& error, const char* name, IntList sizes) {
  if (std::string_view(error.what()).starts_with(fmt::format("{}: ", name))) throw;
  base::rethrow_with(fmt::format("\n  in {}({})", name, sizes));
}

}  // namespace facula::runtime
