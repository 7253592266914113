#include <algorithm>
#include <concepts>

#include "base/check.h"
#include "io/archives/zip.h"
#include "io/archives/zip_records.h"
#include "io/crc32.h"

namespace facula::io {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint32_t kSaturated = 0xffffffff;
constexpr uint16_t kVersion = 20;
constexpr uint16_t kVersionZip64 = 45;
constexpr uint16_t kDate = 1 << 5 | 1;  // 1 January 1980: equal content gives equal files

/// Appends little-endian integers.
struct Record {
  std::string bytes;

  template <std::unsigned_integral T>
  Record& add(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }
};

uint32_t saturate(uint64_t value) {
  return static_cast<uint32_t>(std::min<uint64_t>(value, kSaturated));
}

bool is_wide(uint64_t value) { return value >= kSaturated; }

/// What local and central headers have in common.
void add_description(Record& record, bool zip64, uint32_t crc, uint64_t size,
                     std::string_view name) {
  record.add(zip64 ? kVersionZip64 : kVersion).add(kZipFlagUtf8).add(kZipStored);
  record.add(uint16_t{0}).add(kDate).add(crc).add(saturate(size)).add(saturate(size));
  record.add(static_cast<uint16_t>(name.size()));
}

/// The extra field of a local header: sizes that are too large for it, and padding up to the
/// content's alignment.
std::string local_extra(uint64_t size, uint64_t begin) {
  Record extra;
  if (is_wide(size)) extra.add(kZip64Extra).add(uint16_t{16}).add(size).add(size);
  const uint64_t unpadded = begin + extra.bytes.size() + 4;
  const auto padding = static_cast<uint16_t>((kAlignment - unpadded % kAlignment) % kAlignment);
  extra.add(kZipPaddingExtra).add(padding);
  return extra.bytes + std::string(padding, 'Z');
}

}  // namespace

void ZipWriter::write(std::string_view bytes) {
  file_.write(bytes);
  offset_ += bytes.size();
}

void ZipWriter::add(std::string_view name, std::span<const uint8_t> content) {
  check<ValueError>(name.size() <= 0xffff, "zip: a member's name has {} bytes; shorten it",
                    name.size());
  const auto crc = crc32(0, content);
  members_.push_back({std::string(name), content.size(), offset_, crc});
  const std::string extra = local_extra(content.size(), offset_ + kZipLocalSize + name.size());
  Record header;
  header.add(kZipLocalSignature);
  add_description(header, is_wide(content.size()), crc, content.size(), name);
  header.add(static_cast<uint16_t>(extra.size()));
  write(header.bytes);
  write(name);
  write(extra);
  file_.write(content);
  offset_ += content.size();
}

void ZipWriter::add(std::string_view name, std::string_view content) {
  add(name, {reinterpret_cast<const uint8_t*>(content.data()), content.size()});
}

void ZipWriter::finish() {
  const uint64_t begin = offset_;
  for (const Written& member : members_) {
    Record wide;
    if (is_wide(member.size)) wide.add(member.size).add(member.size);
    if (is_wide(member.offset)) wide.add(member.offset);
    Record extra;
    if (!wide.bytes.empty()) {
      extra.add(kZip64Extra).add(static_cast<uint16_t>(wide.bytes.size()));
      extra.bytes += wide.bytes;
    }
    Record entry;
    entry.add(kZipCentralSignature).add(kVersionZip64);
    add_description(entry, !extra.bytes.empty(), member.crc, member.size, member.name);
    entry.add(static_cast<uint16_t>(extra.bytes.size()));
    entry.add(uint16_t{0}).add(uint16_t{0}).add(uint16_t{0}).add(uint32_t{0});
    entry.add(saturate(member.offset));
    write(entry.bytes + member.name + extra.bytes);
  }
  const uint64_t size = offset_ - begin, count = members_.size(), end = offset_;
  Record record;
  if (count >= 0xffff || is_wide(size) || is_wide(begin)) {
    record.add(kZip64EndSignature).add(kZip64EndSize - 12);
    record.add(kVersionZip64).add(kVersionZip64).add(uint32_t{0}).add(uint32_t{0});
    record.add(count).add(count).add(size).add(begin);
    record.add(kZip64LocatorSignature).add(uint32_t{0}).add(end).add(uint32_t{1});
  }
  const auto narrow_count = static_cast<uint16_t>(std::min<uint64_t>(count, 0xffff));
  record.add(kZipEndSignature).add(uint16_t{0}).add(uint16_t{0});
  record.add(narrow_count).add(narrow_count).add(saturate(size)).add(saturate(begin));
  record.add(uint16_t{0});
  write(record.bytes);
}

}  // namespace facula::io
