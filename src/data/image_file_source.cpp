#include "data/image_file_source.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/divide_up.h"
#include "base/per_thread.h"
#include "data/stage_times.h"
#include "io/file.h"
#include "io/images/image_file.h"

namespace facula::data {
namespace {

/// Photos have some MiB, scans some dozens.
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 28;

/// Memory for files, handed on from one image of a thread to the next: fresh memory costs as much
/// as reading into it.
struct FileMemory {
  static constexpr std::size_t kMost = std::size_t{1} << 22;  // larger files are rare

  static std::vector<std::uint8_t> take() {
    return std::exchange(base::per_thread<FileMemory>().spare, {});
  }
  static void give_back(std::vector<std::uint8_t> memory) {
    if (memory.capacity() <= kMost) base::per_thread<FileMemory>().spare = std::move(memory);
  }

  std::vector<std::uint8_t> spare;
};

/// The rows of a file; grey ones as RGB where `spread` says so.
class FileRows final : public RowReader {
 public:
  FileRows(std::unique_ptr<RowReader> decoder, std::int64_t width, bool spread)
      : decoder_(std::move(decoder)), width_(width), spread_(spread) {}

  PixelRows next(std::int64_t count) override {
    const StageTimer timer(Stage::decode, Stage::write);
    const PixelRows rows = decoder_->next(count);
    if (!spread_) return rows;
    const std::int64_t stride = 3 * width_;
    rgb_.resize(static_cast<std::size_t>(count * stride + kSlack));
    for (std::int64_t y = 0; y < count; ++y) {
      std::uint8_t* rgb = rgb_.data() + y * stride;
      for (std::int64_t x = 0; x < width_; ++x, rgb += 3) {
        rgb[0] = rgb[1] = rgb[2] = rows.pixels[y * rows.stride + x];
      }
    }
    return {rgb_.data(), stride};
  }

 private:
  std::unique_ptr<RowReader> decoder_;
  std::int64_t width_;
  bool spread_;
  std::vector<std::uint8_t> rgb_;
};

/// The largest denominator that leaves the shorter side so many pixels.
int denominator_for(const io::ImageHeader& header, std::int64_t shorter_side) {
  if (shorter_side == 0 || header.format != io::ImageFormat::jpeg) return 1;
  int denominator = 8;
  while (denominator > 1 &&
         base::divide_up(std::min(header.height, header.width), denominator) < shorter_side) {
    denominator /= 2;
  }
  return denominator;
}

class ImageFileSource final : public PixelSource {
 public:
  ImageFileSource(std::string path, FileColors colors, std::int64_t shorter_side)
      : path_(std::move(path)),
        file_(io::read_file(path_, kMaxFileBytes, FileMemory::take())),
        header_(io::read_image_header(file_, path_)),
        denominator_(denominator_for(header_, shorter_side)) {
    height = base::divide_up(header_.height, denominator_);
    width = base::divide_up(header_.width, denominator_);
    channels = colors == FileColors::rgb ? 3 : header_.channels;
  }

  ~ImageFileSource() override { FileMemory::give_back(std::move(file_)); }

  std::unique_ptr<RowReader> rows(const Rect& part) const override {
    const StageTimer timer(Stage::decode, Stage::write);
    return std::make_unique<FileRows>(
        io::decode_rows(file_, header_, {part.top, part.left, part.height, part.width}, path_,
                        {.scale_denominator = denominator_}),
        part.width, channels != header_.channels);
  }

 private:
  std::string path_;
  std::vector<std::uint8_t> file_;
  io::ImageHeader header_;
  int denominator_;
};

}  // namespace

std::shared_ptr<const PixelSource> open_image_file(const std::string& path, FileColors colors,
                                                   std::int64_t shorter_side) {
  return std::make_shared<ImageFileSource>(path, colors, shorter_side);
}

Image Image::open(const std::string& path) { return Image(open_image_file(path)); }

}  // namespace facula::data
