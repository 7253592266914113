// Any bytes given to the tar reader end in members within the archive or an IoError. Checksums are
// made right first, or hardly any input would come further.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include <facula/error.h>

#include "io/archives/tar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kBlock = 512, kChecksum = 148, kMagic = 257;
  std::vector<uint8_t> bytes(data, data + size);
  for (size_t start = 0; start + kBlock <= size; start += kBlock) {
    uint8_t* block = bytes.data() + start;
    if (std::memcmp(block + kMagic, "ustar", 5) != 0) continue;
    std::fill_n(block + kChecksum, 8, uint8_t{' '});
    int sum = std::accumulate(block, block + kBlock, 0);
    for (size_t i = 6; i-- > 0; sum /= 8)
      block[kChecksum + i] = static_cast<uint8_t>('0' + sum % 8);
  }
  try {
    facula::io::TarReader reader(bytes, "fuzz");
    size_t members = 0;
    while (const auto member = reader.next()) {
      volatile uint8_t sink = 0;
      for (const uint8_t byte : member->bytes) sink = byte;
      if (++members > size / kBlock || member->name.size() > size) std::abort();
    }
  } catch (const facula::IoError&) {
  }
  return 0;
}
