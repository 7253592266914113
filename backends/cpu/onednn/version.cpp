// Tells the user which oneDNN computes.
#include <fmt/format.h>
#include <dnnl.hpp>

#include "runtime/libraries.h"

namespace facula::cpu {

void register_onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  runtime::register_library(
      fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch));
}

}  // namespace facula::cpu
