// A StateDict as JSON text. Trees are objects, in order; booleans, integers, numbers and strings
// are themselves, numbers always with a point or exponent, None is null. What JSON lacks is an
// object with one key that begins with a dot, which no entry of a StateDict can be called:
// {".tensor": text},
// {".bytes": "hexadecimal"}, {".text": "hexadecimal"} for what is not UTF-8, {".number": "nan"}.
#pragma once

#include <string>
#include <string_view>

#include <facula/state_dict.h>

#include "base/function_ref.h"

namespace facula::io {

/// `tensor` gives the text that stands for the tensor called `name`. Throws ValueError for
/// undefined tensors, for names that are not UTF-8 and for what parse_state_json would refuse.
std::string format_state_json(
    const StateDict& state,
    FunctionRef<std::string(const std::string& name, const Tensor& tensor)> tensor);

/// `tensor` gives the tensor called `name` back. Throws IoError, naming `source`, unless the text
/// has the form above; trees deeper than 64 levels are refused, and those whose entries would take
/// more memory than three times the text and 32 MiB.
StateDict parse_state_json(
    std::string_view json, const std::string& source,
    FunctionRef<Tensor(const std::string& name, const std::string& text)> tensor);

}  // namespace facula::io
