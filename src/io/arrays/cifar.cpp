#include "io/arrays/cifar.h"

#include "base/check.h"
#include "io/archives/compression.h"
#include "io/bounded.h"

namespace facula::io {
namespace {

constexpr size_t kImageBytes = 3 * 32 * 32;

uint8_t read_label(BoundedReader& reader, size_t record, std::string_view what, int classes) {
  const uint8_t label = reader.u8(what);
  check<IoError>(label < classes,
                 "{}: record {} has {} {}, expected 0 to {}; the file is damaged or of the other "
                 "CIFAR kind, check it",
                 reader.source(), record, what, label, classes - 1);
  return label;
}

}  // namespace

CifarRecords parse_cifar(std::span<const uint8_t> file, CifarKind kind, const std::string& source) {
  const bool is_100 = kind == CifarKind::kCifar100;
  const size_t record_bytes = (is_100 ? 2 : 1) + kImageBytes;
  check<IoError>(!file.empty() && file.size() % record_bytes == 0,
                 "{}: {} bytes are not a whole number of {} records of {} bytes; the file is "
                 "truncated or of another kind, check it",
                 source, file.size(), is_100 ? "CIFAR-100" : "CIFAR-10", record_bytes);
  const size_t count = file.size() / record_bytes;
  CifarRecords records;
  records.images.reserve(count * kImageBytes);
  records.labels.reserve(count);
  if (is_100) records.coarse_labels.reserve(count);

  BoundedReader reader(file, source);
  for (size_t i = 0; i < count; ++i) {
    if (is_100) records.coarse_labels.push_back(read_label(reader, i, "coarse label", 20));
    records.labels.push_back(read_label(reader, i, "label", is_100 ? 100 : 10));
    const auto image = reader.take(kImageBytes, "an image");
    records.images.insert(records.images.end(), image.begin(), image.end());
  }
  return records;
}

CifarRecords read_cifar(const std::string& path, CifarKind kind, size_t max_bytes) {
  return parse_cifar(decompress_file(path, max_bytes), kind, path);
}

}  // namespace facula::io
