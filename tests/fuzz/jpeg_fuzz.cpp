// Any bytes given to the JPEG decoder end in consistent pixels or an IoError, at every scale.
#include "tests/fuzz/image_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool scaled = data[size - 1] % 4 == 3;
  facula::io::decode_whole_and_part({data, size}, scaled ? 2 << data[size - 1] / 4 % 3 : 1);
  return 0;
}
