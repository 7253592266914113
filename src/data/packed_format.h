// The file format of packed image sets: decoded images that are used where they lie.
//
//   magic (8 bytes), version (u32), zeros up to 64 bytes
//   pixels of each image, rows with channels innermost, from a multiple of 64 bytes on
//   index: name, classes, class names, channels, mean and deviation of each, count, a record of
//          32 bytes for each image, the images' sources
//   trailer: offset (u64) and size (u64) of the index, its CRC-32 (u32), version (u32), magic
//
// Numbers are little-endian; texts are a length (u32) and UTF-8. The index comes last because the
// sizes of images are known when they have been decoded, and writing goes from front to back.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <facula/data/dataset.h>

namespace facula::data {

struct PackedFormat {
  static constexpr std::string_view kMagic{"FACULApk", 8};
  static constexpr std::uint32_t kVersion = 1;
  static constexpr std::uint64_t kAlignment = 64;
  static constexpr std::uint64_t kTrailerBytes = 32;
  static constexpr std::uint64_t kRecordBytes = 32;
  static constexpr std::int64_t kMostClasses = std::int64_t{1} << 31;
};

/// One image, as its record says.
struct PackedRecord {
  std::uint64_t offset = 0;
  std::int64_t label = 0;
  std::uint32_t height = 0, width = 0, channels = 0;
  /// Bytes of the source's name.
  std::uint32_t source_bytes = 0;

  std::uint64_t bytes() const { return std::uint64_t{height} * width * channels; }
};

/// What the index says. `sources` has the names of all images one after the other.
struct PackedIndex {
  ImageSetInfo info;
  std::vector<PackedRecord> records;
  std::string sources;
};

/// The index and the trailer, for an index that begins at `offset`.
std::string format_packed_index(const PackedIndex& index, std::uint64_t offset);
/// Reads and checks everything but the pixels themselves: nothing in a result of this points
/// outside the file. Throws IoError. `source` names the bytes in messages.
PackedIndex parse_packed(std::span<const std::uint8_t> file, const std::string& source);

}  // namespace facula::data
