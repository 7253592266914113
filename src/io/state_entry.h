// What files call by names on its way into a StateDict.
#pragma once

#include <string>

#include <facula/state_dict.h>

namespace facula::io {

/// Adds the entry that the file `source` calls `name`. Throws IoError for a name that is no path in
/// a tree, and where another entry would be lost, as "a" beside "a.b" would be.
void add_entry(StateDict& state, const std::string& name, StateValue value,
               const std::string& source);

}  // namespace facula::io
