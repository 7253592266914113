// Any text given to the reader of a checkpoint's state ends in a state that is written and read
// again unchanged, or in an IoError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <facula/error.h>
#include <facula/tensor.h>

#include "io/state_json.h"

namespace {

/// The text that stands for a tensor is not kept, so all get the same.
std::string format(const facula::StateDict& state) {
  return facula::io::format_state_json(
      state, [](const std::string&, const facula::Tensor&) { return std::string("00"); });
}

facula::StateDict parse(std::string_view json) {
  return facula::io::parse_state_json(
      json, "fuzz", [](const std::string&, const std::string&) { return facula::empty({0}); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const facula::StateDict state =
        parse(std::string_view(reinterpret_cast<const char*>(data), size));
    std::string json;
    try {
      json = format(state);
    } catch (const facula::ValueError&) {
      return 0;  // a name that is not UTF-8
    }
    if (format(parse(json)) != json) std::abort();
  } catch (const facula::IoError&) {
  }
  return 0;
}
