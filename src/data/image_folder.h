// What opening the parts of a set of image folders needs besides image_folder().
#pragma once

#include <string>
#include <vector>

namespace facula::data {

/// The names of the class folders in `folder`, sorted. Throws IoError if it cannot be listed.
std::vector<std::string> class_folders(const std::string& folder);

}  // namespace facula::data
