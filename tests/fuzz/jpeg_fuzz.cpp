// Any bytes given to the JPEG decoder end in consistent pixels or an IoError, at every scale.
#include "tests/fuzz/image_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  facula::io::decode_whole_and_part({data, size});
  return 0;
}
