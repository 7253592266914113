// Environment variables that set Facula up. Every name begins with FACULA_; an empty value counts
// as unset.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <facula/error.h>
#include <facula/export.h>

namespace facula::base {

/// A variable's value makes no sense. The operation that asks for it first has nothing to do with
/// that, so it is not added to the message.
class FACULA_API VariableError : public ValueError {
 public:
  using ValueError::ValueError;
  ~VariableError() override;
};

/// The value of variable `name`, if set.
FACULA_API std::optional<std::string> env_string(const char* name);

/// The integer in variable `name`, if set. Throws VariableError unless it is a decimal number in
/// [min, max].
FACULA_API std::optional<int64_t> env_int(const char* name, int64_t min, int64_t max);

/// The switch in variable `name`, if set: 1, true, on, yes or 0, false, off, no, in any case.
/// Throws VariableError for anything else.
FACULA_API std::optional<bool> env_bool(const char* name);

}  // namespace facula::base
