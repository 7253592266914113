// What the calls in a file of torch.save stand for, as far as they are not tensors.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <facula/state_dict.h>

#include "io/torch/pickle.h"

namespace facula::io {

/// Throws IoError: `call` has arguments that its function does not take.
[[noreturn]] void fail_arguments(const Pickle& pickle, const PickleValue& call,
                                 const std::string& source);

/// The number, text or bytes that a call stands for: a device, a number of NumPy's, ... Nothing if
/// it is a call of another kind. Throws IoError for arguments that make no sense, and for NumPy's
/// scalars that are not numbers; `name` is what messages call the value.
std::optional<StateValue> leaf_of_call(const Pickle& pickle, const PickleValue& call,
                                       const std::string& name, const std::string& source);

/// A list, tuple or torch.Size of integers that are not negative; nothing if it is something else
/// or longer than `max_count`.
std::optional<std::vector<int64_t>> sizes_of(const Pickle& pickle, const PickleValue& value,
                                             size_t max_count);

/// The name that an entry with this key gets in a StateDict. `position` is its own in the dict, for
/// keys that no name can be made of.
std::string name_of_key(const PickleValue& key, size_t position);

}  // namespace facula::io
