#include "io/images/png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "io/bounded.h"
#include "io/images/exif.h"

namespace facula::io {
namespace {

/// No deflate stream expands to more than this multiple of its size.
constexpr int64_t kMostExpansion = 1032;
constexpr size_t kSignatureBytes = 8, kCrcBytes = 4;

enum ColorType : uint8_t { grey = 0, rgb = 2, palette = 3, grey_alpha = 4, rgb_alpha = 6 };

int64_t samples_per_pixel(uint8_t color_type) {
  switch (color_type) {
    case grey:
    case palette: return 1;
    case grey_alpha: return 2;
    case rgb: return 3;
    case rgb_alpha: return 4;
    default: return 0;
  }
}

/// Reads the image header (PNG 1.2, 4.1.1) and checks it against the size of the file.
void read_ihdr(BoundedReader& reader, size_t file_size, ImageHeader& header) {
  const std::string& name = reader.source();
  const uint32_t length = reader.u32_be("the length of a PNG chunk");
  const uint32_t type = reader.u32_be("the type of a PNG chunk");
  check<IoError>(length == 13 && type == 0x49484452,
                 "{}: the PNG file does not start with its image header; it is damaged, get it "
                 "again",
                 name);
  const uint32_t width = reader.u32_be("the width"), height = reader.u32_be("the height");
  const int depth = reader.u8("the bit depth");
  const uint8_t color_type = reader.u8("the colour type");
  reader.skip(3 + kCrcBytes, "the image header");
  const int64_t samples = samples_per_pixel(color_type);
  const bool depth_ok = depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
  check<IoError>(samples != 0 && depth_ok,
                 "{}: a PNG file of colour type {} with {} bits per sample; it is damaged, get it "
                 "again",
                 name, color_type, depth);
  // The order matters: one side alone may be 2^32 - 1, so the product is formed last.
  check<IoError>(height > 0 && width > 0 && height <= kMaxPixels && width <= kMaxPixels &&
                     int64_t{height} * width <= kMaxPixels,
                 "{}: {}x{} pixels, the limit is {} and the least is 1; make the image smaller",
                 name, height, width, kMaxPixels);
  const int64_t bytes = height * ((width * samples * depth + 7) / 8 + 1);
  check<IoError>(bytes / kMostExpansion <= static_cast<int64_t>(file_size),
                 "{}: {} bytes cannot hold the {}x{} pixels that the file declares; it is damaged, "
                 "get it again",
                 name, file_size, height, width);
  header.height = height;
  header.width = width;
  header.channels = color_type == grey || color_type == grey_alpha ? 1 : 3;
}

/// The orientation in an eXIf chunk, which may stand before or after the pixels. Damage found on
/// the way is left to libpng.
int find_orientation(BoundedReader& reader) {
  constexpr uint32_t kExif = 0x65584966;
  while (reader.remaining() >= 8) {
    const uint32_t length = reader.u32_be("the length of a PNG chunk");
    const uint32_t type = reader.u32_be("the type of a PNG chunk");
    if (reader.remaining() < kCrcBytes || length > reader.remaining() - kCrcBytes) break;
    const auto chunk = reader.take(length, "a PNG chunk");
    if (type == kExif) return exif_orientation(chunk);
    reader.skip(kCrcBytes, "the checksum of a PNG chunk");
  }
  return 1;
}

/// libpng reports errors through a callback that must not return. It jumps out of libpng to
/// guarded(), over frames that hold nothing to destroy; only there is an exception thrown.
class PngDecoder {
 public:
  PngDecoder(std::span<const uint8_t> file, const std::string& name) : rest_(file), name_(name) {
    png_ = png_create_read_struct(
        PNG_LIBPNG_VER_STRING, this,
        [](png_structp png, png_const_charp message) {
          static_cast<PngDecoder*>(png_get_error_ptr(png))->jump(message);
        },
        [](png_structp, png_const_charp) {});
    info_ = png_ ? png_create_info_struct(png_) : nullptr;
    if (!info_) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      fail<OutOfMemory>("{}: no memory to decode it", name);
    }
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  void start(const ImageHeader& header);
  void read(const ImageHeader& header, const ImageRegion& region, uint8_t* destination);

 private:
  [[noreturn]] void jump(const char* message) {
    std::strncpy(message_, message, sizeof(message_) - 1);
    std::longjmp(back_, 1);
  }
  /// Runs `action`, in which nothing may need destruction when libpng fails.
  template <class Action>
  void guarded(const Action& action) {
    if (setjmp(back_) == 0) {
      action();
    } else {
      // "Out of memory" and "insufficient memory" say nothing of the file.
      check<OutOfMemory>(!std::strstr(message_, "memory"), "{}: no memory to decode it", name_);
      fail<IoError>("{}: {}; the PNG file is damaged, get it again", name_, message_);
    }
  }
  void supply(uint8_t* destination, size_t count) {
    if (count > rest_.size()) png_error(png_, "the file is truncated");
    std::memcpy(destination, rest_.data(), count);
    rest_ = rest_.subspan(count);
  }
  void request_bytes_of_color();
  void read_rows(const ImageRegion& region, int64_t pixel_bytes, uint8_t* destination);
  void read_interlaced(const ImageRegion& region, int64_t pixel_bytes, uint8_t* destination);

  std::span<const uint8_t> rest_;
  const std::string& name_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  char message_[256] = {};
  std::jmp_buf back_;
};

/// Whatever the file holds, rows become bytes of grey or RGB.
void PngDecoder::request_bytes_of_color() {
  const int color_type = png_get_color_type(png_, info_);
  png_set_strip_16(png_);
  if (color_type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
  if (color_type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
  png_set_strip_alpha(png_);
  passes_ = png_set_interlace_handling(png_);
  png_read_update_info(png_, info_);
}

void PngDecoder::start(const ImageHeader& header) {
  guarded([&] {
    png_set_read_fn(png_, this, [](png_structp png, png_bytep destination, size_t count) {
      static_cast<PngDecoder*>(png_get_io_ptr(png))->supply(destination, count);
    });
    png_set_user_limits(png_, kMaxPixels, kMaxPixels);
    png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    // A negative count stands for all chunks but those that make the pixels: neither texts nor
    // colour profiles, which may be compressed, are ever unpacked.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
    request_bytes_of_color();
  });
  check<IoError>(png_get_image_height(png_, info_) == header.stored_height() &&
                     png_get_image_width(png_, info_) == header.stored_width() &&
                     png_get_channels(png_, info_) == header.channels &&
                     png_get_bit_depth(png_, info_) == 8,
                 "{}: the PNG file has several image headers that contradict each other; it is "
                 "damaged, get it again",
                 name_);
}

void PngDecoder::read(const ImageHeader& header, const ImageRegion& region, uint8_t* destination) {
  if (passes_ == 1) {
    read_rows(region, header.channels, destination);
  } else {
    read_interlaced(region, header.channels, destination);
  }
}

void PngDecoder::read_rows(const ImageRegion& region, int64_t pixel_bytes, uint8_t* destination) {
  const size_t full_row = png_get_rowbytes(png_, info_);
  const size_t row_bytes = static_cast<size_t>(region.width * pixel_bytes);
  std::vector<uint8_t> row(full_row);
  guarded([&] {
    for (int64_t y = 0; y < region.top; ++y) png_read_row(png_, row.data(), nullptr);
    for (int64_t y = 0; y < region.height; ++y, destination += row_bytes) {
      png_read_row(png_, row_bytes == full_row ? destination : row.data(), nullptr);
      if (row_bytes != full_row)
        std::memcpy(destination, row.data() + region.left * pixel_bytes, row_bytes);
    }
  });
}

/// Every pass fills in more of each row, so all of the image is kept.
void PngDecoder::read_interlaced(const ImageRegion& region, int64_t pixel_bytes,
                                 uint8_t* destination) {
  const size_t full_row = png_get_rowbytes(png_, info_);
  const size_t row_bytes = static_cast<size_t>(region.width * pixel_bytes);
  const size_t height = png_get_image_height(png_, info_);
  std::vector<uint8_t> image(full_row * height);
  guarded([&] {
    for (int pass = 0; pass < passes_; ++pass)
      for (size_t y = 0; y < height; ++y) png_read_row(png_, image.data() + y * full_row, nullptr);
  });
  for (int64_t y = 0; y < region.height; ++y, destination += row_bytes) {
    std::memcpy(
        destination,
        image.data() + static_cast<size_t>(region.top + y) * full_row + region.left * pixel_bytes,
        row_bytes);
  }
}

}  // namespace

ImageHeader read_png_header(std::span<const uint8_t> file, const std::string& name) {
  BoundedReader reader(file, name);
  reader.skip(kSignatureBytes, "the PNG signature");
  ImageHeader header{.format = ImageFormat::png};
  read_ihdr(reader, file.size(), header);
  header.orientation = find_orientation(reader);
  if (header.transposed()) std::swap(header.height, header.width);
  return header;
}

void decode_png(std::span<const uint8_t> file, const ImageHeader& header, const ImageRegion& stored,
                uint8_t* destination, const std::string& name) {
  PngDecoder decoder(file, name);
  decoder.start(header);
  decoder.read(header, stored, destination);
}

}  // namespace facula::io
