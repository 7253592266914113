#include "io/archives/zip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "base/thread_pool.h"
#include "io/archives/zip_records.h"
#include "io/bounded.h"
#include "io/crc32.h"
#include "io/streamed_copy.h"

namespace facula::io {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr std::string_view kRefuse = "the archive is damaged or malicious, refuse it";

/// Deflate cannot pack better: 258 bytes take at least two bits.
constexpr uint64_t kMaxDeflateRatio = 1032;

/// What the end records say about the central directory.
struct Directory {
  uint64_t count = 0, size = 0, offset = 0;
  uint64_t end = 0;  // where the end records begin
};

uint64_t little_endian(Bytes bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

bool has_signature(Bytes archive, uint64_t offset, uint32_t signature) {
  return offset + 4 <= archive.size() && little_endian(archive.subspan(offset, 4)) == signature;
}

/// Where the end record is: it ends, with its comment, where the archive does. What could be two
/// archives, depending on where one starts to look, is refused.
uint64_t find_end_record(Bytes archive, const std::string& source) {
  std::optional<uint64_t> found;
  if (archive.size() >= kZipEndSize) {
    const uint64_t last = archive.size() - kZipEndSize;
    const uint64_t first = last - std::min<uint64_t>(last, kZipMaxComment);
    for (uint64_t offset = last + 1; offset-- > first;) {
      if (archive[offset] != 'P' || !has_signature(archive, offset, kZipEndSignature)) continue;
      const uint64_t comment = little_endian(archive.subspan(offset + kZipEndSize - 2, 2));
      if (comment != last - offset) continue;
      check<IoError>(!found, "{}: two zip archives end at the same place; {}", source, kRefuse);
      found = offset;
    }
  }
  check<IoError>(found.has_value(),
                 "{}: no zip archive, or one that is truncated or followed by other data; get the "
                 "file again",
                 source);
  return *found;
}

/// Replaces what the end record says by what that of zip64 says, if there is one.
void apply_zip64(Directory& directory, Bytes archive, const std::string& source) {
  const uint64_t end = directory.end;
  if (end < kZip64LocatorSize ||
      !has_signature(archive, end - kZip64LocatorSize, kZip64LocatorSignature)) {
    return;
  }
  BoundedReader locator(archive.subspan(end - kZip64LocatorSize, kZip64LocatorSize), source);
  locator.skip(4, "the zip64 locator");
  const uint32_t disk = locator.u32_le("the zip64 locator");
  const uint64_t offset = locator.u64_le("the zip64 locator");
  const uint32_t disks = locator.u32_le("the zip64 locator");
  const BoundedReader whole(archive.first(end - kZip64LocatorSize), source);
  BoundedReader record(whole.at(offset, kZip64EndSize, "the zip64 end record"), source);
  const uint32_t signature = record.u32_le("its signature");
  const uint64_t rest = record.u64_le("its size");
  record.skip(4, "its versions");
  const uint64_t numbers = uint64_t{record.u32_le("its disk")} << 32 | record.u32_le("its disk");
  const uint64_t count_here = record.u64_le("its count");
  Directory wide{record.u64_le("its count"), record.u64_le("its size"), record.u64_le("its offset"),
                 offset};
  check<IoError>(signature == kZip64EndSignature && offset + rest + 12 == end - kZip64LocatorSize &&
                     disk == 0 && disks <= 1 && numbers == 0 && count_here == wide.count,
                 "{}: the zip64 end record is wrong; {}", source, kRefuse);
  const auto agree = [](uint64_t narrow, uint64_t value, uint64_t saturated) {
    return narrow == value || narrow == saturated;
  };
  check<IoError>(
      agree(directory.count, wide.count, 0xffff) && agree(directory.size, wide.size, 0xffffffff) &&
          agree(directory.offset, wide.offset, 0xffffffff),
      "{}: the two end records of the zip archive contradict each other; {}", source, kRefuse);
  directory = wide;
}

Directory find_directory(Bytes archive, const std::string& source) {
  const uint64_t end = find_end_record(archive, source);
  BoundedReader record(archive.subspan(end, kZipEndSize), source);
  record.skip(4, "the end record");
  const uint32_t disks = record.u16_le("its disk") | record.u16_le("its disk");
  const uint64_t count_here = record.u16_le("its count");
  Directory directory{.count = record.u16_le("its count"),
                      .size = record.u32_le("its size"),
                      .offset = record.u32_le("its offset"),
                      .end = end};
  check<IoError>(disks == 0 && count_here == directory.count,
                 "{}: a part of a zip archive in several parts; join the parts first", source);
  apply_zip64(directory, archive, source);
  check<IoError>(
      directory.offset <= directory.end && directory.size == directory.end - directory.offset,
      "{}: the zip archive's directory of {} bytes at {} does not reach to its end at "
      "{}, or other data comes before the archive; get the file again",
      source, directory.size, directory.offset, directory.end);
  return directory;
}

/// The header of a member, as it stands before its data and again in the directory.
struct Header {
  uint16_t flags = 0, method = 0;
  uint32_t crc = 0;
  uint64_t packed = 0, size = 0, offset = 0;
  std::string_view name;
};

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Replaces the fields that do not fit into 32 bits by those of the zip64 extra field.
void read_zip64(Header& header, Bytes extra, bool central, const std::string& source) {
  constexpr uint32_t kSaturated = 0xffffffff;
  BoundedReader fields(extra, source);
  // Others pad with a few zeros.
  while (fields.remaining() >= 4) {
    const uint16_t id = fields.u16_le("an extra field");
    BoundedReader field(fields.take(fields.u16_le("an extra field"), "an extra field"), source);
    if (id != kZip64Extra) continue;
    if (header.size == kSaturated) header.size = field.u64_le("a zip64 size");
    if (header.packed == kSaturated) header.packed = field.u64_le("a zip64 size");
    if (central && header.offset == kSaturated) header.offset = field.u64_le("a zip64 offset");
    return;
  }
}

Header read_central(BoundedReader& directory, const std::string& source) {
  constexpr std::string_view what = "an entry of the zip directory";
  check<IoError>(directory.u32_le(what) == kZipCentralSignature,
                 "{}: an entry of the zip directory does not begin with its mark; {}", source,
                 kRefuse);
  Header header;
  directory.skip(4, what);
  header.flags = directory.u16_le(what);
  header.method = directory.u16_le(what);
  directory.skip(4, what);
  header.crc = directory.u32_le(what);
  header.packed = directory.u32_le(what);
  header.size = directory.u32_le(what);
  const uint16_t name = directory.u16_le(what), extra = directory.u16_le(what),
                 comment = directory.u16_le(what), disk = directory.u16_le(what);
  directory.skip(6, what);
  header.offset = directory.u32_le(what);
  header.name = text_of(directory.take(name, what));
  read_zip64(header, directory.take(extra, what), true, source);
  directory.skip(comment, what);
  check<IoError>(disk == 0, "{}: a part of a zip archive in several parts; join the parts first",
                 source);
  return header;
}

/// Reads the local header of `central`, compares, and returns where the member's data begins.
uint64_t check_local(const Header& central, Bytes before_directory, const std::string& source) {
  constexpr std::string_view what = "the header of a zip member";
  BoundedReader reader(before_directory, source);
  reader.skip(central.offset, what);
  const uint32_t signature = reader.u32_le(what);
  Header local;
  reader.skip(2, what);
  local.flags = reader.u16_le(what);
  local.method = reader.u16_le(what);
  reader.skip(4, what);
  local.crc = reader.u32_le(what);
  local.packed = reader.u32_le(what);
  local.size = reader.u32_le(what);
  const uint16_t name = reader.u16_le(what), extra = reader.u16_le(what);
  local.name = text_of(reader.take(name, what));
  read_zip64(local, reader.take(extra, what), false, source);
  // Writers that stream leave these fields zero and repeat them behind the data.
  const bool later = local.flags & kZipFlagSizesLater;
  const auto agree = [&](uint64_t here, uint64_t there) {
    return here == there || (later && here == 0);
  };
  check<IoError>(signature == kZipLocalSignature && local.name == central.name &&
                     local.method == central.method &&
                     ((local.flags ^ central.flags) & kZipFlagsEncrypted) == 0 &&
                     agree(local.crc, central.crc) && agree(local.packed, central.packed) &&
                     agree(local.size, central.size),
                 "{}: the zip member {} has two headers that contradict each other; {}", source,
                 quote_name(central.name), kRefuse);
  return reader.offset();
}

/// Throws unless the member is one that can be read.
void check_member(const Header& header, const std::string& source) {
  check<IoError>(!header.name.empty() && header.name.find('\0') == std::string_view::npos,
                 "{}: a zip member has the name {}; {}", source, quote_name(header.name), kRefuse);
  check<IoError>((header.flags & kZipFlagsEncrypted) == 0,
                 "{}: the zip member {} is encrypted; decrypt the archive first", source,
                 quote_name(header.name));
  check<IoError>(header.method == kZipStored || header.method == kZipDeflated,
                 "{}: the zip member {} is packed by method {}, only deflate and none can be read; "
                 "pack the archive anew",
                 source, quote_name(header.name), header.method);
  const bool possible = header.method == kZipStored
                            ? header.size == header.packed
                            : header.size / kMaxDeflateRatio <= header.packed;
  check<IoError>(possible, "{}: the zip member {} cannot hold {} bytes in {}; {}", source,
                 quote_name(header.name), header.size, header.packed, kRefuse);
}

/// Copies with all threads; returns the checksum.
uint32_t copy_and_sum(std::span<uint8_t> to, Bytes from) {
  // Pieces stay in the cache between summing and copying, which goes past it.
  constexpr size_t kSlice = 1 << 20, kPiece = 64 * 1024;
  const size_t slices = (from.size() + kSlice - 1) / kSlice;
  std::vector<uint32_t> sums(slices);
  base::parallel_for(static_cast<int64_t>(slices), [&](int64_t index) {
    const auto slice = static_cast<size_t>(index);
    const size_t end = std::min(from.size(), (slice + 1) * kSlice);
    for (size_t at = slice * kSlice; at < end; at += kPiece) {
      const Bytes piece = from.subspan(at, std::min(kPiece, end - at));
      sums[slice] = crc32(sums[slice], piece);
      streamed_copy(to.data() + at, piece.data(), piece.size());
    }
  });
  uint32_t sum = 0;
  for (size_t i = 0; i < slices; ++i) {
    const size_t size = std::min(kSlice, from.size() - i * kSlice);
    sum = static_cast<uint32_t>(::crc32_combine(sum, sums[i], static_cast<z_off_t>(size)));
  }
  return sum;
}

/// zlib's decoder for data without header.
class Inflater {
 public:
  Inflater(Bytes packed, const ZipMember& member, const std::string& source)
      : rest_(packed), member_(member), source_(source) {
    check<OutOfMemory>(::inflateInit2(&stream_, -MAX_WBITS) == Z_OK,
                       "{}: not enough memory to decompress it; free some", source);
  }
  ~Inflater() { ::inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Fills `destination`; throws IoError if the data is damaged or ends before.
  void fill(std::span<uint8_t> destination) {
    while (!destination.empty()) {
      const size_t wanted = std::min(destination.size(), kMost);
      run(destination.first(wanted));
      const size_t made = wanted - stream_.avail_out;
      destination = destination.subspan(made);
      if (!destination.empty() && (ended_ || (made == 0 && rest_.empty()))) fail_damaged();
    }
  }
  /// Throws IoError unless the data ends here.
  void finish() {
    uint8_t beyond;
    while (!ended_) {
      const size_t before = rest_.size();
      run({&beyond, 1});
      if (stream_.avail_out == 0 || (!ended_ && rest_.size() == before)) fail_damaged();
    }
    if (!rest_.empty()) fail_damaged();
  }
  [[noreturn]] void fail_damaged() {
    fail<IoError>("{}: the zip member {} is damaged; get the file again", source_,
                  quote_name(member_.name));
  }

 private:
  static constexpr size_t kMost = size_t{1} << 30;  // zlib counts in 32 bits

  void run(std::span<uint8_t> space) {
    const size_t given = std::min(rest_.size(), kMost);
    stream_.next_in = const_cast<uint8_t*>(rest_.data());
    stream_.avail_in = static_cast<uInt>(given);
    stream_.next_out = space.data();
    stream_.avail_out = static_cast<uInt>(space.size());
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    rest_ = rest_.subspan(given - stream_.avail_in);
    ended_ = result == Z_STREAM_END;
    if (result == Z_MEM_ERROR) fail<OutOfMemory>("{}: no memory to decompress it", source_);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) fail_damaged();
  }

  z_stream stream_{};
  Bytes rest_;
  bool ended_ = false;
  const ZipMember& member_;
  const std::string& source_;
};

}  // namespace

ZipReader::ZipReader(Bytes archive, std::string source) : source_(std::move(source)) {
  const Directory directory = find_directory(archive, source_);
  const Bytes before = archive.first(directory.offset);
  BoundedReader entries(archive.subspan(directory.offset, directory.size), source_);
  struct Region {
    uint64_t begin, end;
  };
  std::vector<Region> regions;
  while (entries.remaining() > 0) {
    const Header header = read_central(entries, source_);
    check_member(header, source_);
    const uint64_t begin = check_local(header, before, source_);
    const Bytes packed =
        BoundedReader(before, source_).at(begin, header.packed, quote_name(header.name));
    regions.push_back({header.offset, begin + header.packed});
    members_.push_back({.name = std::string(header.name),
                        .deflated = header.method == kZipDeflated,
                        .size = header.size,
                        .crc = header.crc,
                        .packed = packed});
  }
  check<IoError>(members_.size() == directory.count,
                 "{}: the zip directory has {} entries, its end record says {}; {}", source_,
                 members_.size(), directory.count, kRefuse);
  std::ranges::sort(regions, {}, &Region::begin);
  const auto overlap =
      std::ranges::adjacent_find(regions, [](auto& a, auto& b) { return a.end > b.begin; });
  check<IoError>(overlap == regions.end(), "{}: two zip members share bytes; {}", source_, kRefuse);
  check_unique_names();
}

void ZipReader::check_unique_names() {
  const auto name = [&](size_t i) -> const std::string& { return members_[i].name; };
  by_name_.resize(members_.size());
  std::iota(by_name_.begin(), by_name_.end(), size_t{0});
  std::ranges::sort(by_name_, {}, name);
  const auto repeated = std::ranges::adjacent_find(by_name_, {}, name);
  if (repeated == by_name_.end()) return;
  fail<IoError>("{}: two zip members are called {}; {}", source_, quote_name(name(*repeated)),
                kRefuse);
}

const ZipMember* ZipReader::find(std::string_view name) const {
  const auto found = std::partition_point(by_name_.begin(), by_name_.end(),
                                          [&](size_t i) { return members_[i].name < name; });
  if (found == by_name_.end() || members_[*found].name != name) return nullptr;
  return &members_[*found];
}

void ZipReader::check_crc(uint32_t crc, const ZipMember& member) const {
  check<IoError>(crc == member.crc,
                 "{}: the zip member {} is damaged (wrong CRC-32); get the file again", source_,
                 quote_name(member.name));
}

Bytes ZipReader::view(const ZipMember& member) const {
  check<IoError>(!member.deflated, "{}: the zip member {} is deflated; pack the archive without",
                 source_, quote_name(member.name));
  check_crc(crc32(0, member.packed), member);
  return member.packed;
}

std::vector<uint8_t> ZipReader::read(const ZipMember& member, uint64_t max_bytes) const {
  check<IoError>(member.size <= max_bytes,
                 "{}: the zip member {} holds {} bytes, the limit is {}; check that it is the file "
                 "you mean",
                 source_, quote_name(member.name), member.size, max_bytes);
  if (!member.deflated) {
    const Bytes content = view(member);
    return {content.begin(), content.end()};
  }
  // Grown as data arrives: the size is a claim.
  constexpr size_t kFirst = 64 * 1024;
  std::vector<uint8_t> content;
  Inflater inflater(member.packed, member, source_);
  while (content.size() < member.size) {
    const size_t used = content.size();
    const auto next = std::min<uint64_t>(member.size, std::max(2 * used, kFirst));
    content.reserve(next);  // resize() alone may reserve more
    content.resize(next);
    inflater.fill(std::span(content).subspan(used));
  }
  inflater.finish();
  check_crc(crc32(0, content), member);
  return content;
}

void ZipReader::read_into(const ZipMember& member, std::span<uint8_t> destination) const {
  check<IoError>(destination.size() == member.size,
                 "{}: the zip member {} holds {} bytes, expected {}; get the file again", source_,
                 quote_name(member.name), member.size, destination.size());
  if (!member.deflated) {
    check_crc(copy_and_sum(destination, member.packed), member);
    return;
  }
  Inflater inflater(member.packed, member, source_);
  // In pieces that stay in the cache between unpacking and summing.
  constexpr size_t kPiece = 256 * 1024;
  uint32_t crc = 0;
  for (size_t done = 0; done < destination.size();) {
    const auto piece = destination.subspan(done, std::min(kPiece, destination.size() - done));
    inflater.fill(piece);
    crc = crc32(crc, piece);
    done += piece.size();
  }
  inflater.finish();
  check_crc(crc, member);
}

bool is_zip(Bytes file) {
  return has_signature(file, 0, kZipLocalSignature) || has_signature(file, 0, kZipEndSignature);
}

}  // namespace facula::io
