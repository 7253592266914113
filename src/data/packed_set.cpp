// Image sets in a packed file: writing and reading.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include "base/check.h"
#include "base/interrupt.h"
#include "base/thread_pool.h"
#include "core/host_allocator.h"
#include "data/labelled_image.h"
#include "data/loading.h"
#include "data/packed_format.h"
#include "io/atomic_file.h"
#include "io/file.h"

namespace facula::data {
namespace {

using Format = PackedFormat;

/// Images are decoded side by side and written one after the other, at most so many at a time.
constexpr std::int64_t kChunk = 16;

/// How many, if the largest has so many bytes: all take an eighth of the memory that tensors may
/// have.
std::int64_t images_at_once(std::int64_t bytes) {
  return std::clamp<std::int64_t>(host_memory_cap() / 8 / std::max<std::int64_t>(bytes, 1), 1,
                                  kChunk);
}

/// Appends to a file in large pieces.
class PackWriter {
 public:
  explicit PackWriter(const std::string& path) : file_(path) {}

  std::uint64_t offset() const { return written_ + buffer_.size(); }

  void write(std::string_view bytes) {
    constexpr std::size_t kPiece = std::size_t{4} << 20;
    if (buffer_.size() + bytes.size() > kPiece) flush();
    if (bytes.size() > kPiece) {
      file_.write(bytes);
      written_ += bytes.size();
    } else {
      buffer_ += bytes;
    }
  }

  void align() {
    buffer_.append((Format::kAlignment - offset() % Format::kAlignment) % Format::kAlignment, '\0');
  }

  void commit() {
    flush();
    file_.commit();
  }

 private:
  void flush() {
    file_.write(buffer_);
    written_ += buffer_.size();
    buffer_.clear();
  }

  io::AtomicFile file_;
  std::string buffer_;
  std::uint64_t written_ = 0;
};

/// A sample that has been decoded.
struct Decoded {
  Tensor pixels;  // uint8 [H, W, C]
  std::int64_t label = 0;
};

void shrink(Image& image, std::int64_t shorter_side) {
  const std::int64_t height = image.height(), width = image.width();
  const std::int64_t shorter = std::min(height, width);
  if (shorter_side == 0 || shorter <= shorter_side) return;
  image.resize(height * shorter_side / shorter, width * shorter_side / shorter);
}

Decoded decode(const ImageDataset& set, std::int64_t index, std::int64_t shorter_side) {
  Sample sample = set.get(index);
  Image& image = sample.image();
  const auto* label = std::get_if<std::int64_t>(&sample["label"]);
  check<ValueError>(label && *label >= 0 && *label < set.info().classes && !image.is_float(),
                    "pack: sample {} of '{}' is not an image of bytes with a label from 0 to {}; "
                    "leave conversions to the transforms",
                    index, set.info().name, set.info().classes - 1);
  shrink(image, shorter_side);
  return {image.pixels(), *label};
}

std::uint32_t size_in_record(std::uint64_t size, const ImageDataset& set, std::int64_t index) {
  check<ValueError>(size <= std::numeric_limits<std::uint32_t>::max(),
                    "pack: sample {} of '{}' is too large", index, set.info().name);
  return static_cast<std::uint32_t>(size);
}

void check_info(const ImageSetInfo& info) {
  const auto channels = static_cast<std::size_t>(info.channels);
  check<ValueError>((channels == 1 || channels == 3) && info.mean.size() == channels &&
                        info.std.size() == channels && info.classes >= 1 &&
                        (info.class_names.empty() ||
                         info.class_names.size() == static_cast<std::size_t>(info.classes)),
                    "pack: the information on '{}' does not fit together: {} channels, {} means, "
                    "{} deviations, {} classes, {} class names",
                    info.name, channels, info.mean.size(), info.std.size(), info.classes,
                    info.class_names.size());
  check<ValueError>(info.classes <= Format::kMostClasses,
                    "pack: '{}' has {} classes, a packed file at most {}", info.name, info.classes,
                    Format::kMostClasses);
  const auto finite = [](double value) { return std::isfinite(value); };
  check<ValueError>(
      std::ranges::all_of(info.mean, finite) && std::ranges::all_of(info.std, finite),
      "pack: '{}' has means [{}] and deviations [{}], expected finite numbers; 0 and 1 change "
      "nothing",
      info.name, fmt::join(info.mean, ", "), fmt::join(info.std, ", "));
}

class PackedDataset final : public Loading<ImageDataset> {
 public:
  explicit PackedDataset(const std::string& path)
      : file_(path), index_(parse_packed(file_.bytes(), path)) {
    source_starts_.reserve(index_.records.size());
    std::uint64_t start = 0;
    for (const auto& record : index_.records) {
      source_starts_.push_back(start);
      start += record.source_bytes;
    }
  }

  const ImageSetInfo& info() const override { return index_.info; }
  std::int64_t size() const override { return static_cast<std::int64_t>(index_.records.size()); }

  void load(std::int64_t index, Sample& sample) const override {
    const PackedRecord& record = at(index);
    const std::uint8_t* pixels = file_.bytes().data() + record.offset;
    set_labelled_image(sample, Image(pixels, record.height, record.width, record.channels),
                       record.label);
  }

  std::string source(std::int64_t index) const override {
    const std::uint32_t bytes = at(index).source_bytes;
    return index_.sources.substr(source_starts_[static_cast<std::size_t>(index)], bytes);
  }

 private:
  const PackedRecord& at(std::int64_t index) const {
    check_index(index, size(), "packed");
    return index_.records[static_cast<std::size_t>(index)];
  }

  io::MappedFile file_;
  PackedIndex index_;
  std::vector<std::uint64_t> source_starts_;
};

/// `count` images, or fewer if they do not fit into memory together, but one at least.
std::vector<Decoded> decode_some(const ImageDataset& set, std::int64_t first, std::int64_t count,
                                 std::int64_t shorter_side) {
  for (;; count = (count + 1) / 2) {
    std::vector<Decoded> images(static_cast<std::size_t>(count));
    try {
      base::parallel_for(count, [&](std::int64_t i) {
        images[static_cast<std::size_t>(i)] = decode(set, first + i, shorter_side);
      });
      return images;
    } catch (const OutOfMemory&) {
      if (count == 1) throw;
    }
  }
}

}  // namespace

int pack(const ImageDataset& set, const std::string& path, const PackOptions& options) {
  check<ValueError>(options.shorter_side >= 0, "pack: shorter_side is {}, expected 0 or more",
                    options.shorter_side);
  check_info(set.info());
  PackedIndex index{.info = set.info(), .records = {}, .sources = {}};
  const base::InterruptGuard interrupt(options.stop_on_interrupt);
  PackWriter writer(path);
  std::string start(Format::kMagic);
  start += {static_cast<char>(Format::kVersion), '\0', '\0', '\0'};
  writer.write(start);
  std::int64_t largest = 0;  // bytes of one, of those before
  for (std::int64_t next = 0; next < set.size();) {
    if (const int signal = interrupt.signal()) return signal;
    const std::int64_t count = std::min(images_at_once(largest), set.size() - next);
    const std::vector<Decoded> images = decode_some(set, next, count, options.shorter_side);
    largest = 0;
    for (const auto& [pixels, label] : images) {
      largest = std::max(largest, pixels.nbytes());
      const std::string source = set.source(next);
      writer.align();
      const auto size = [&, &pixels = pixels](int d) {
        return size_in_record(static_cast<std::uint64_t>(pixels.size(d)), set, next);
      };
      index.records.push_back({.offset = writer.offset(),
                               .label = label,
                               .height = size(0),
                               .width = size(1),
                               .channels = size(2),
                               .source_bytes = size_in_record(source.size(), set, next)});
      index.sources += source;
      writer.write(
          {static_cast<const char*>(pixels.raw_data()), static_cast<std::size_t>(pixels.nbytes())});
      ++next;
    }
  }
  if (const int signal = interrupt.signal()) return signal;
  writer.align();
  writer.write(format_packed_index(index, writer.offset()));
  writer.commit();
  return 0;
}

ImageDatasetPtr packed(const std::string& path) { return std::make_shared<PackedDataset>(path); }

}  // namespace facula::data
