// Any bytes given to the decompressor end in at most the permitted output or an IoError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <facula/error.h>

#include "io/archives/compression.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kLimit = 1 << 20;
  try {
    const auto bytes = facula::io::decompress({data, size}, kLimit, "fuzz");
    if (bytes.size() > kLimit || bytes.capacity() > kLimit) std::abort();
  } catch (const facula::IoError&) {
  }
  return 0;
}
