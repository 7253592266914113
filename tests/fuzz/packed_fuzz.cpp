// Any bytes given to the parser of packed files end in images within the file or an IoError. The
// checksum is made right first, or hardly any input would come further.
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <facula/error.h>

#include "data/packed_format.h"

using facula::data::PackedFormat;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> file(data, data + size);
  if (size >= PackedFormat::kAlignment + PackedFormat::kTrailerBytes) {
    const size_t trailer = size - PackedFormat::kTrailerBytes;
    uint64_t begin;
    std::memcpy(&begin, file.data() + trailer, sizeof begin);
    if (begin <= trailer) {
      const uint64_t bytes = trailer - begin;
      const auto sum = static_cast<uint32_t>(::crc32_z(0, file.data() + begin, bytes));
      std::memcpy(file.data() + trailer + 8, &bytes, sizeof bytes);
      std::memcpy(file.data() + trailer + 16, &sum, sizeof sum);
    }
  }
  try {
    const auto index = facula::data::parse_packed(file, "fuzz");
    volatile uint8_t sink = 0;
    uint64_t names = 0;
    for (const auto& record : index.records) {
      if (record.label < 0 || record.label >= index.info.classes) std::abort();
      for (uint64_t i = 0; i < record.bytes(); ++i) sink = file[record.offset + i];
      names += record.source_bytes;
    }
    if (names != index.sources.size()) std::abort();
  } catch (const facula::IoError&) {
  }
  return 0;
}
