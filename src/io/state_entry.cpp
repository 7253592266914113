#include "io/state_entry.h"

#include <utility>

#include "base/check.h"
#include "io/bounded.h"

namespace facula::io {

void add_entry(StateDict& state, const std::string& name, StateValue value,
               const std::string& source) {
  try {
    check<ValueError>(!state.contains(name),
                      "another entry has this name, or one that begins with it and a point; rename "
                      "it where the file was made");
    state.set(name, std::move(value));
  } catch (const ValueError& error) {
    fail<IoError>("{}: the name {} cannot be used: {}", source, quote_name(name), error.what());
  }
}

}  // namespace facula::io
