// Environment variables that set Facula up. Every name begins with FACULA_; an empty value counts
// as unset.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <facula/export.h>

namespace facula::base {

/// The value of variable `name`, if set.
FACULA_API std::optional<std::string> env_string(const char* name);

/// The integer in variable `name`, if set. Throws ValueError unless it is a decimal number in
/// [min, max].
FACULA_API std::optional<int64_t> env_int(const char* name, int64_t min, int64_t max);

/// The switch in variable `name`, if set: 1, true, on, yes or 0, false, off, no, in any case.
/// Throws ValueError for anything else.
FACULA_API std::optional<bool> env_bool(const char* name);

}  // namespace facula::base
