// Any bytes given to the zip reader end in members whose content has the size and CRC they say, or
// an IoError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <facula/error.h>

#include "io/archives/zip.h"
#include "tests/fuzz/zip_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = facula::io::with_right_checksums(data, size);
  try {
    const facula::io::ZipReader zip(file, "fuzz");
    for (const auto& member : zip.members()) {
      if (zip.find(member.name) != &member) std::abort();
      try {
        const auto content = zip.read(member, 1 << 20);
        std::vector<uint8_t> filled(member.size);
        zip.read_into(member, filled);
        if (content != filled || content.size() != member.size) std::abort();
      } catch (const facula::IoError&) {
      }
    }
  } catch (const facula::IoError&) {
  }
  return 0;
}
