#include "io/archives/tar.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/check.h"

namespace facula::io {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr uint64_t kBlock = 512;
/// Longer names than the system's PATH_MAX and longer lists of attributes serve nobody.
constexpr uint64_t kMaxExtension = uint64_t{1} << 20;

/// The fields of a header block (POSIX.1-2008, pax, "ustar Interchange Format").
struct Field {
  size_t offset, length;

  Bytes of(Bytes block) const { return block.subspan(offset, length); }
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kMagic{257, 6}, kPrefix{345, 155};
constexpr size_t kType = 156;

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Text up to the first NUL, which need not be there.
std::string_view until_nul(Bytes bytes) {
  const auto text = text_of(bytes);
  return text.substr(0, text.find('\0'));
}

/// Octal digits between spaces, ended by a space, a NUL or the field. No digits are 0, as some
/// writers leave fields of members without data empty.
std::optional<uint64_t> parse_octal(Bytes field) {
  std::string_view text = until_nul(field);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, text.find(' '));
  uint64_t value = 0;
  for (const char digit : text) {
    // Twelve digits at most, so that nothing overflows.
    if (digit < '0' || digit > '7') return std::nullopt;
    value = value * 8 + static_cast<uint64_t>(digit - '0');
  }
  return value;
}

/// GNU's form for numbers of more than 33 bits: the first bit is set, the rest is big-endian.
std::optional<uint64_t> parse_number(Bytes field) {
  constexpr uint8_t kBinary = 0x80, kNegative = 0xff;
  if (!(field[0] & kBinary)) return parse_octal(field);
  if (field[0] == kNegative) return std::nullopt;
  uint64_t value = field[0] & ~kBinary;
  for (const uint8_t byte : field.subspan(1)) {
    if (value > std::numeric_limits<uint64_t>::max() >> 8) return std::nullopt;
    value = value << 8 | byte;
  }
  return value;
}

std::optional<uint64_t> parse_decimal(std::string_view text) {
  if (text.empty()) return std::nullopt;
  uint64_t value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return std::nullopt;
    if (__builtin_mul_overflow(value, uint64_t{10}, &value) ||
        __builtin_add_overflow(value, static_cast<uint64_t>(digit - '0'), &value)) {
      return std::nullopt;
    }
  }
  return value;
}

/// The sum of the block's bytes with the checksum itself taken for spaces. Old writers summed
/// signed bytes.
bool checksum_holds(Bytes block) {
  const auto stored = parse_octal(kChecksum.of(block));
  int64_t unsigned_sum = 0, signed_sum = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    const bool in_checksum = i - kChecksum.offset < kChecksum.length;
    const uint8_t byte = in_checksum ? ' ' : block[i];
    unsigned_sum += byte;
    signed_sum += static_cast<int8_t>(byte);
  }
  return stored && (static_cast<int64_t>(*stored) == unsigned_sum ||
                    static_cast<int64_t>(*stored) == signed_sum);
}

bool all_zero(Bytes bytes) {
  return std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; });
}

}  // namespace

struct TarReader::Header {
  char type = 0;
  std::string name;
  uint64_t size = 0;

  bool is_file() const {
    // Before POSIX, folders were files whose names end in a slash.
    return (type == '0' || type == '\0' || type == '7') && !name.ends_with('/');
  }
  /// Links, devices, folders and pipes have no data whatever their size says; kinds that are not
  /// known have.
  bool has_data() const { return type < '1' || type > '6'; }
};

void TarReader::fail_damaged(const char* what) const {
  fail<IoError>("{}: the tar archive has {} near offset {}; it is damaged, get it again",
                reader_.source(), what, reader_.offset());
}

std::optional<TarReader::Header> TarReader::read_header() {
  const auto block = reader_.take(kBlock, "a tar header");
  if (all_zero(block)) return std::nullopt;
  if (!checksum_holds(block)) fail_damaged("a header whose checksum is wrong");
  Header header;
  header.type = static_cast<char>(block[kType]);
  header.name = until_nul(kName.of(block));
  const auto magic = text_of(kMagic.of(block));
  if (magic == std::string_view("ustar\0", 6)) {
    const auto prefix = until_nul(kPrefix.of(block));
    if (!prefix.empty()) header.name = std::string(prefix) + "/" + header.name;
  }
  const auto size = parse_number(kSize.of(block));
  if (!size) fail_damaged("a header whose size is no number");
  header.size = *size;
  return header;
}

Bytes TarReader::read_data(uint64_t size) {
  const auto data = reader_.take(size, "a tar member");
  const uint64_t padding = (kBlock - size % kBlock) % kBlock;
  reader_.skip(padding, "the padding of a tar member");
  return data;
}

TarReader::Extension TarReader::parse_pax(Bytes records) const {
  Extension extension;
  std::string_view rest = text_of(records);
  while (!rest.empty()) {
    // "<length of all of this> <key>=<value>\n"
    const auto space = rest.find(' ');
    const auto length = parse_decimal(rest.substr(0, space));
    if (space == rest.npos || !length || *length > rest.size() || *length < space + 2 ||
        rest[*length - 1] != '\n') {
      fail_damaged("a pax record of a wrong length");
    }
    const auto record = rest.substr(space + 1, *length - space - 2);
    rest.remove_prefix(*length);
    const auto equals = record.find('=');
    if (equals == record.npos) fail_damaged("a pax record without a value");
    const auto key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") {
      if (value.find('\0') != value.npos) fail_damaged("a name with a NUL");
      extension.name = value;
    } else if (key == "size") {
      extension.size = parse_decimal(value);
      if (!extension.size) fail_damaged("a pax record whose size is no number");
    } else if (key.starts_with("GNU.sparse.")) {
      fail<IoError>("{}: the tar archive holds a sparse file; make it again without --sparse",
                    reader_.source());
    }
  }
  return extension;
}

std::optional<TarMember> TarReader::next() {
  Extension extension;
  while (auto header = read_header()) {
    const bool describes_next = header->type == 'x' || header->type == 'L' || header->type == 'K';
    if (describes_next) {
      if (header->size > kMaxExtension) fail_damaged("a name of more than a MiB");
      const auto data = read_data(header->size);
      if (header->type == 'L') extension.name = until_nul(data);
      if (header->type == 'x') {
        auto parsed = parse_pax(data);
        if (parsed.name) extension.name = std::move(parsed.name);
        if (parsed.size) extension.size = parsed.size;
      }
      continue;
    }
    check<IoError>(header->type != 'S',
                   "{}: the tar archive holds a sparse file; make it again without --sparse",
                   reader_.source());
    if (header->type == 'g') {  // defaults for all members, such as a comment of git archive
      read_data(header->size);
      continue;
    }
    if (extension.name) header->name = std::move(*extension.name);
    if (extension.size) header->size = *extension.size;
    extension = {};
    if (!header->has_data()) continue;
    const auto data = read_data(header->size);
    if (header->is_file()) return TarMember{std::move(header->name), data};
  }
  return std::nullopt;
}

}  // namespace facula::io
