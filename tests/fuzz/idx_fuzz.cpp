// Any bytes given to the IDX parser end in a consistent array or an IoError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <facula/error.h>

#include "io/arrays/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto array = facula::io::parse_idx({data, size}, "fuzz");
    size_t count = 1;
    for (const int64_t dim : array.dims) count *= static_cast<size_t>(dim);
    if (count != array.bytes.size()) std::abort();
  } catch (const facula::IoError&) {
  }
  return 0;
}
