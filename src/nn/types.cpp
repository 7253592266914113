#include "nn/types.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace facula::nn {

std::string type_name(const std::type_info& type) {
  int status = 0;
  char* demangled = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  const std::string full = status == 0 ? demangled : type.name();
  std::free(demangled);
  // Outside of brackets: arguments of templates and of the function that it is local to have
  // namespaces, too.
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < full.size(); ++i) {
    constexpr std::string_view kOperator = "::operator";
    if (full.compare(i, kOperator.size(), kOperator) == 0) {  // whose < and > are no brackets
      i = std::min(full.find_first_not_of("<>=-", i + kOperator.size()), full.size() - 1);
    }
    if (std::string_view("<({[").find(full[i]) != std::string_view::npos) ++depth;
    if (std::string_view(">)}]").find(full[i]) != std::string_view::npos) --depth;
    if (depth == 0 && full[i] == ':') begin = i + 1;
  }
  return full.substr(begin);
}

// C++ does not ask type_info for base classes; the Itanium ABI says where they are.
bool has_base(const std::type_info& type, const std::type_info& base) noexcept {
  const auto is_or_has = [&base](const std::type_info& t) {
    return t == base || has_base(t, base);
  };
  if (const auto* single = dynamic_cast<const abi::__si_class_type_info*>(&type)) {
    return is_or_has(*single->__base_type);
  }
  const auto* several = dynamic_cast<const abi::__vmi_class_type_info*>(&type);
  if (!several) return false;
  return std::any_of(several->__base_info, several->__base_info + several->__base_count,
                     [&](const auto& info) { return is_or_has(*info.__base_type); });
}

}  // namespace facula::nn
