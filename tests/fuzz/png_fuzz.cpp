// Any bytes given to the PNG decoder end in consistent pixels or an IoError. Checksums are made
// right first: nearly everything would be refused for them alone.
#include <zlib.h>

#include "tests/fuzz/image_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> file(data, data + size);
  for (size_t at = 8; at + 12 <= size;) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | file[at + i];
    if (length > size - at - 12) break;
    const auto sum = crc32(0, file.data() + at + 4, static_cast<uInt>(length + 4));
    for (size_t i = 0; i < 4; ++i)
      file[at + 8 + length + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
    at += 12 + length;
  }
  facula::io::decode_whole_and_part(file);
  return 0;
}
