// The JSON header of a safetensors file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/bounded.h"
#include "io/safetensors/safetensors.h"

namespace facula::io {

/// Larger headers are refused, as in the format's reference implementation.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

/// The name under which the header keeps the metadata; no tensor may have it.
inline constexpr std::string_view kSafetensorsMetadataKey = "__metadata__";

/// What the header says about one tensor; its data is [begin, end) of the bytes after the header.
struct SafetensorsHeaderTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsHeaderTensor> tensors;
  SafetensorsMetadata metadata;
};

/// What loading a file of so many bytes may take, and so much of it the tensors and metadata take:
/// with the mapping, memory stays below four times the file and 64 MiB.
constexpr uint64_t safetensors_budget(uint64_t file_size) {
  return (uint64_t{60} << 20) + 3 * file_size;
}
uint64_t safetensors_cost(const SafetensorsHeader& header);

/// Parses the JSON text. Throws IoError unless it has exactly the structure of the format; sizes,
/// offsets, dtypes and repeated tensor names are the caller's to check. The cost is charged to
/// `budget`.
SafetensorsHeader parse_safetensors_header(std::span<const uint8_t> json, const std::string& source,
                                           MemoryBudget& budget);

/// The JSON text, tensors in the given order. Throws ValueError for text that is not UTF-8.
std::string format_safetensors_header(const SafetensorsHeader& header);

}  // namespace facula::io
