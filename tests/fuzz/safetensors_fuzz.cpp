// Any bytes given to the safetensors reader end in tensors that cover the data exactly or an
// IoError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <facula/error.h>

#include "io/safetensors/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const facula::io::SafetensorsReader reader({data, size}, "fuzz");
    size_t rest = size;
    for (const auto& entry : reader.entries()) {
      if (reader.find(entry.name) != &entry) std::abort();
      volatile uint8_t sink = 0;
      for (const uint8_t byte : entry.data) sink = byte;
      rest -= entry.data.size();
    }
    uint64_t header_size = 0;
    for (size_t i = 8; i-- > 0;) header_size = header_size << 8 | data[i];
    if (rest != 8 + header_size) std::abort();
  } catch (const facula::IoError&) {
  }
  return 0;
}
