// Types of modules as the program knows them at run time.
#pragma once

#include <string>
#include <typeinfo>

namespace facula::nn {

/// "Conv2d", without namespaces.
std::string type_name(const std::type_info& type);
/// Whether `base` is a base class of `type`, direct or not.
bool has_base(const std::type_info& type, const std::type_info& base) noexcept;

}  // namespace facula::nn
