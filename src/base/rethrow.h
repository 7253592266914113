// Adding to the message of an error on its way up.
#pragma once

#include <string>

namespace facula::base {

/// Throws the error that is being handled again, as an error of the same kind with `suffix` added
/// to its message. Exceptions that do not concern a computation (IoError, VariableError, those of
/// the standard library, classes derived from Facula's) go on unchanged. Call it in a catch block
/// only.
[[noreturn]] void rethrow_with(const std::string& suffix);

}  // namespace facula::base
