// Any bytes given to the npy parser end in an array that covers the data exactly or an IoError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <facula/error.h>

#include "io/arrays/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto array = facula::io::parse_npy({data, size}, "fuzz");
    if (array.strides.size() != array.shape.size()) std::abort();
    size_t last = 0;
    bool empty = false;
    for (size_t d = 0; d < array.shape.size(); ++d) {
      if (array.shape[d] == 0)
        empty = true;
      else
        last += static_cast<size_t>((array.shape[d] - 1) * array.strides[d]);
    }
    const size_t count = empty ? 0 : last + 1;
    if (count * size_of(array.dtype) != array.data.size()) std::abort();
    volatile uint8_t sink = 0;
    for (const uint8_t byte : array.data) sink = byte;
  } catch (const facula::IoError&) {
  }
  return 0;
}
