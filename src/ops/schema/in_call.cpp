#include "ops/schema/in_call.h"

#include <string>

#include "base/check.h"
#include "base/rethrow.h"

namespace facula {
namespace {

bool names(const Error& error, std::string_view name) {
  return std::string_view(error.what()).starts_with(fmt::format("{}: ", name));
}

}  // namespace

void rethrow_in_call(const Error& error, std::string_view name, IntList sizes) {
  if (names(error, name)) throw;
  base::rethrow_with(fmt::format("\n  in {}({})", name, sizes));
}

void rethrow_in_call(const Error& error, std::string_view name,
                     std::initializer_list<const Tensor*> operands) {
  if (names(error, name)) throw;
  std::string list;
  for (const Tensor* tensor : operands) {
    if (!list.empty()) list += ", ";
    list += tensor->defined() ? fmt::format("{} {}", name_of(tensor->dtype()), tensor->sizes())
                              : "undefined";
  }
  base::rethrow_with(fmt::format("\n  in {}({})", name, list));
}

}  // namespace facula
