// JPEG and PNG files: what they contain, and the pixels of any rectangle of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace facula::io {

enum class ImageFormat : uint8_t { jpeg, png };

/// The format that a file of these first bytes (kFormatBytes are enough) claims to have.
std::optional<ImageFormat> image_format(std::span<const uint8_t> first_bytes);
inline constexpr size_t kFormatBytes = 8;

/// Images of more pixels are refused, and so are files that are too short for what they declare:
/// see kPixelsPerByte in jpeg.cpp and kMostExpansion in png.cpp.
inline constexpr int64_t kMaxPixels = int64_t{1} << 28;

struct ImageHeader {
  ImageFormat format = ImageFormat::jpeg;
  /// Of the image as it is seen, turned upright.
  int64_t height = 0, width = 0;
  /// 1 (grey) or 3 (RGB).
  int64_t channels = 0;
  /// What EXIF says has to be done to the stored pixels, 1 (nothing) to 8. From 5 on rows become
  /// columns.
  int orientation = 1;

  bool transposed() const { return orientation >= 5; }
  int64_t stored_height() const { return transposed() ? width : height; }
  int64_t stored_width() const { return transposed() ? height : width; }
};

struct ImageRegion {
  int64_t top = 0, left = 0, height = 0, width = 0;
};

struct DecodeOptions {
  /// 2, 4 or 8: a JPEG image of ceil(size / 2) and so on, made from a part of its frequencies. Much
  /// faster than shrinking, and not the same pixels.
  int scale_denominator = 1;
};

/// Rows of pixels in memory, `stride` bytes apart.
struct PixelRows {
  const uint8_t* pixels = nullptr;
  int64_t stride = 0;
};

/// Yields the rows of a part of an image from top to bottom, decoded when they are asked for.
class RowReader {
 public:
  /// Bytes after the last row that may be read; what they are is unknown.
  static constexpr int64_t kSlack = 32;

  virtual ~RowReader() = default;
  /// The next `count` rows, of which there must be so many. Valid until the next call. Throws
  /// IoError for damaged files.
  virtual PixelRows next(int64_t count) = 0;
};

/// Reads the header of a whole file without decoding anything. `name` stands for the file in
/// messages, normally its path. Throws IoError for what is no JPEG or PNG file, is damaged, of an
/// unsupported kind, or declares more pixels than it can hold.
ImageHeader read_image_header(std::span<const uint8_t> file, const std::string& name);

/// Decodes `region`, in coordinates of the upright (and scaled) image of `header`, to
/// `destination`: region.height rows of region.width * header.channels bytes. The pixels are those
/// of decoding everything and cutting, and those that Pillow's convert("RGB") or convert("L")
/// yields; of 16-bit files they are the upper bytes. What lies below the region is not looked at,
/// so damage there is not noticed. Throws IoError for damaged files, and ValueError for a region
/// outside the image or a scale that the format does not have.
void decode_image(std::span<const uint8_t> file, const ImageHeader& header,
                  const ImageRegion& region, uint8_t* destination, const std::string& name,
                  const DecodeOptions& options = {});

/// As decode_image, row by row: what is decoded need not leave the cache before it is used. `file`
/// and `name` must outlive the result. Of PNG files and those that have to be turned, everything is
/// decoded at once.
std::unique_ptr<RowReader> decode_rows(std::span<const uint8_t> file, const ImageHeader& header,
                                       const ImageRegion& region, const std::string& name,
                                       const DecodeOptions& options = {});

}  // namespace facula::io
