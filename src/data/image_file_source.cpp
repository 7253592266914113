#include "data/image_file_source.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "io/file.h"
#include "io/images/image_file.h"

namespace facula::data {
namespace {

/// Photos have some MiB, scans some dozens.
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 28;

/// Makes RGB of the `pixels` grey ones that stand in the last third of `rgb`, in place: what is
/// written never overtakes what is read.
void spread_grey(std::uint8_t* rgb, std::int64_t pixels) {
  const std::uint8_t* grey = rgb + 2 * pixels;
  for (std::int64_t i = 0; i < pixels; ++i, rgb += 3) {
    const std::uint8_t value = grey[i];
    rgb[0] = rgb[1] = rgb[2] = value;
  }
}

class ImageFileSource final : public PixelSource {
 public:
  ImageFileSource(std::string path, FileColors colors)
      : path_(std::move(path)),
        file_(io::read_file(path_, kMaxFileBytes)),
        header_(io::read_image_header(file_, path_)) {
    height = header_.height;
    width = header_.width;
    channels = colors == FileColors::rgb ? 3 : header_.channels;
  }

  void read(const Rect& part, std::uint8_t* destination) const override {
    const std::int64_t pixels = part.height * part.width;
    const bool spread = channels != header_.channels;
    io::decode_image(file_, header_, {part.top, part.left, part.height, part.width},
                     spread ? destination + 2 * pixels : destination, path_);
    if (spread) spread_grey(destination, pixels);
  }

 private:
  std::string path_;
  std::vector<std::uint8_t> file_;
  io::ImageHeader header_;
};

}  // namespace

std::shared_ptr<const PixelSource> open_image_file(const std::string& path, FileColors colors) {
  return std::make_shared<ImageFileSource>(path, colors);
}

Image Image::open(const std::string& path) { return Image(open_image_file(path)); }

}  // namespace facula::data
