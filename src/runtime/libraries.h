// The libraries that backends compute with, for the user's information.
#pragma once

#include <string>

namespace facula::runtime {

/// Called by a backend while it registers its implementations.
void register_library(std::string name_and_version);

}  // namespace facula::runtime
