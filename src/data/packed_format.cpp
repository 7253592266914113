#include "data/packed_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>

#include "base/check.h"
#include "io/bounded.h"
#include "io/crc32.h"

namespace facula::data {
namespace {

using Format = PackedFormat;

template <std::unsigned_integral T>
void append(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> 8 * i & 0xff);
}

void append(std::string& out, double value) { append(out, std::bit_cast<std::uint64_t>(value)); }

void append(std::string& out, const std::string& text) {
  append(out, static_cast<std::uint32_t>(text.size()));
  out += text;
}

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// Reads an index, whose checksum holds; it may still be nonsense made on purpose.
class IndexParser {
 public:
  IndexParser(std::span<const std::uint8_t> index, std::uint64_t begin, const std::string& source)
      : reader_(index, source), begin_(begin) {}

  PackedIndex parse() {
    PackedIndex index;
    index.info = parse_info();
    const std::uint64_t count = reader_.u64_le("the number of images");
    require(count <= reader_.remaining() / Format::kRecordBytes, "more images than records");
    index.records.reserve(count);
    std::uint64_t source_bytes = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      index.records.push_back(parse_record(index.info.classes));
      source_bytes += index.records.back().source_bytes;
    }
    require(source_bytes == reader_.remaining(), "names of files that do not fill it");
    index.sources = text(source_bytes);
    note_common_size(index);
    return index;
  }

 private:
  static void note_common_size(PackedIndex& index) {
    if (index.records.empty()) return;
    const PackedRecord& first = index.records.front();
    const bool equal = std::all_of(index.records.begin(), index.records.end(), [&](const auto& r) {
      return r.height == first.height && r.width == first.width;
    });
    if (!equal) return;
    index.info.height = first.height;
    index.info.width = first.width;
  }

  void require(bool holds, const char* what) const {
    check<IoError>(holds, "{}: the packed file's index has {}; it is damaged, make it again",
                   reader_.source(), what);
  }

  std::string text(std::uint64_t bytes) {
    const auto taken = reader_.take(bytes, "a text of the index");
    return {taken.begin(), taken.end()};
  }
  std::string text() { return text(reader_.u32_le("the length of a text")); }

  std::vector<double> numbers(std::int64_t count) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i) {
      values.push_back(std::bit_cast<double>(reader_.u64_le("a mean or deviation")));
      require(std::isfinite(values.back()), "a mean or deviation that is not finite");
    }
    return values;
  }

  ImageSetInfo parse_info() {
    ImageSetInfo info;
    info.name = text();
    const std::uint64_t classes = reader_.u64_le("the number of classes");
    require(classes <= std::uint64_t{Format::kMostClasses}, "more classes than anybody needs");
    info.classes = static_cast<std::int64_t>(classes);
    const std::uint32_t names = reader_.u32_le("the number of class names");
    require(names == 0 || names == classes, "class names for some of the classes");
    for (std::uint32_t i = 0; i < names; ++i) info.class_names.push_back(text());
    info.channels = reader_.u32_le("the number of channels");
    require(info.channels == 1 || info.channels == 3, "a number of channels other than 1 and 3");
    info.mean = numbers(info.channels);
    info.std = numbers(info.channels);
    return info;
  }

  PackedRecord parse_record(std::int64_t classes) {
    PackedRecord record;
    record.offset = reader_.u64_le("an offset");
    const std::uint64_t label = reader_.u64_le("a label");
    record.height = reader_.u32_le("a height");
    record.width = reader_.u32_le("a width");
    record.channels = reader_.u32_le("a number of channels");
    record.source_bytes = reader_.u32_le("the length of a name");
    require(label < static_cast<std::uint64_t>(classes), "a label out of range");
    record.label = static_cast<std::int64_t>(label);
    require(record.height >= 1 && record.width >= 1, "an image without pixels");
    require(record.channels == 1 || record.channels == 3,
            "a number of channels other than 1 and 3");
    require(record.offset % Format::kAlignment == 0 && record.offset >= Format::kAlignment &&
                record.offset <= begin_,
            "an image at a wrong offset");
    // Compared by division, since the product may overflow.
    const std::uint64_t rows = (begin_ - record.offset) / record.width / record.channels;
    require(record.height <= rows, "an image that reaches beyond the pixels");
    return record;
  }

  io::BoundedReader reader_;
  std::uint64_t begin_;
};

}  // namespace

std::string format_packed_index(const PackedIndex& index, std::uint64_t offset) {
  const ImageSetInfo& info = index.info;
  std::string out;
  append(out, info.name);
  append(out, static_cast<std::uint64_t>(info.classes));
  append(out, static_cast<std::uint32_t>(info.class_names.size()));
  for (const auto& name : info.class_names) append(out, name);
  append(out, static_cast<std::uint32_t>(info.channels));
  for (const double mean : info.mean) append(out, mean);
  for (const double std : info.std) append(out, std);
  append(out, std::uint64_t{index.records.size()});
  for (const auto& record : index.records) {
    append(out, record.offset);
    append(out, static_cast<std::uint64_t>(record.label));
    append(out, record.height);
    append(out, record.width);
    append(out, record.channels);
    append(out, record.source_bytes);
  }
  out += index.sources;

  const std::uint64_t bytes = out.size();
  const std::uint32_t sum = io::crc32(0, bytes_of(out));
  append(out, offset);
  append(out, bytes);
  append(out, sum);
  append(out, Format::kVersion);
  out += Format::kMagic;
  return out;
}

PackedIndex parse_packed(std::span<const std::uint8_t> file, const std::string& source) {
  io::BoundedReader reader(file, source);
  const auto is_magic = [&] {
    return std::ranges::equal(reader.take(Format::kMagic.size(), "the magic string"),
                              bytes_of(std::string(Format::kMagic)));
  };
  check<IoError>(is_magic(), "{}: does not begin as a packed file does; check the path", source);
  const std::uint32_t version = reader.u32_le("the version");
  check<IoError>(version == Format::kVersion,
                 "{}: a packed file of version {}, known is {}; make it again", source, version,
                 Format::kVersion);
  check<IoError>(file.size() >= Format::kAlignment + Format::kTrailerBytes,
                 "{}: the packed file is truncated after {} bytes; make it again", source,
                 file.size());
  const std::uint64_t trailer = file.size() - Format::kTrailerBytes;
  reader.skip(trailer - reader.offset(), "the packed file");
  const std::uint64_t begin = reader.u64_le("the trailer"), bytes = reader.u64_le("the trailer");
  const std::uint32_t sum = reader.u32_le("the trailer");
  const bool same_version = reader.u32_le("the trailer") == version;
  check<IoError>(same_version && is_magic() && begin <= trailer && trailer - begin == bytes,
                 "{}: the packed file does not end as it should, so it is truncated or damaged; "
                 "make it again",
                 source);
  const auto index = reader.at(begin, bytes, "the index");
  check<IoError>(io::crc32(0, index) == sum,
                 "{}: the checksum of the packed file's index is wrong; it is damaged, make it "
                 "again",
                 source);
  return IndexParser(index, begin, source).parse();
}

}  // namespace facula::data
