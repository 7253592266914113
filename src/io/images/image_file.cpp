#include "io/images/image_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/divide_up.h"
#include "io/images/jpeg.h"
#include "io/images/png.h"

namespace facula::io {
namespace {

constexpr std::array<uint8_t, 3> kJpegStart = {0xff, 0xd8, 0xff};
constexpr std::array<uint8_t, 8> kPngStart = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

template <size_t n>
bool starts_with(std::span<const uint8_t> bytes, const std::array<uint8_t, n>& start) {
  return bytes.size() >= n && std::equal(start.begin(), start.end(), bytes.begin());
}

/// How the stored image becomes the upright one: its rows, its columns are taken in reverse, then
/// rows become columns.
struct Turn {
  bool rows_reversed, columns_reversed, transposed;
};

Turn turn_of(int orientation) {
  return {
      .rows_reversed = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7,
      .columns_reversed =
          orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8,
      .transposed = orientation >= 5};
}

/// The part of a stored image of height x width that shows `region` of the upright one.
ImageRegion stored_region(const ImageRegion& region, const Turn& turn, int64_t height,
                          int64_t width) {
  ImageRegion stored = region;
  if (turn.transposed) stored = {region.left, region.top, region.width, region.height};
  if (turn.rows_reversed) stored.top = height - stored.top - stored.height;
  if (turn.columns_reversed) stored.left = width - stored.left - stored.width;
  return stored;
}

/// Copies `source`, height x width pixels, upright.
void copy_turned(const uint8_t* source, int64_t height, int64_t width, int64_t channels,
                 const Turn& turn, uint8_t* destination) {
  int64_t row_step = width * channels, column_step = channels;
  if (turn.rows_reversed) source += (height - 1) * row_step, row_step = -row_step;
  if (turn.columns_reversed) source += (width - 1) * column_step, column_step = -column_step;
  if (turn.transposed) std::swap(height, width), std::swap(row_step, column_step);
  for (int64_t y = 0; y < height; ++y) {
    const uint8_t* pixel = source + y * row_step;
    for (int64_t x = 0; x < width; ++x, pixel += column_step)
      for (int64_t c = 0; c < channels; ++c) *destination++ = pixel[c];
  }
}

void check_scale(const ImageHeader& header, int denominator, const std::string& name) {
  const bool power = denominator == 2 || denominator == 4 || denominator == 8;
  check<ValueError>(denominator == 1 || (power && header.format == ImageFormat::jpeg),
                    "{}: cannot decode at 1/{} of the size; JPEG files decode at 1, 1/2, 1/4 and "
                    "1/8, PNG files at 1",
                    name, denominator);
}

bool within(int64_t start, int64_t size, int64_t limit) {
  return start >= 0 && size >= 1 && size <= limit && start <= limit - size;
}

/// The part of the stored image that shows `region`. Throws ValueError as decode_image does.
ImageRegion checked_region(const ImageHeader& header, const ImageRegion& region,
                           const std::string& name, int denominator) {
  check_scale(header, denominator, name);
  const auto scaled = [&](int64_t size) { return base::divide_up(size, denominator); };
  check<ValueError>(within(region.top, region.height, scaled(header.height)) &&
                        within(region.left, region.width, scaled(header.width)),
                    "{}: the region of {}x{} pixels at row {}, column {} is not inside the image "
                    "of {}x{}",
                    name, region.height, region.width, region.top, region.left,
                    scaled(header.height), scaled(header.width));
  return stored_region(region, turn_of(header.orientation), scaled(header.stored_height()),
                       scaled(header.stored_width()));
}

/// Decodes a region of the image as it is stored, to dense rows.
void decode_stored(std::span<const uint8_t> file, const ImageHeader& header,
                   const ImageRegion& stored, int denominator, uint8_t* destination,
                   const std::string& name) {
  if (header.format == ImageFormat::png) return decode_png(file, header, stored, destination, name);
  const auto rows = read_jpeg_rows(file, header, stored, denominator, name);
  const int64_t bytes = stored.width * header.channels;
  for (int64_t y = 0; y < stored.height; ++y, destination += bytes)
    std::memcpy(destination, rows->next(1).pixels, static_cast<size_t>(bytes));
}

/// Rows that have been decoded before.
class DecodedRows final : public RowReader {
 public:
  DecodedRows(int64_t height, int64_t stride)
      : pixels_(static_cast<size_t>(height * stride + kSlack)), stride_(stride) {}

  uint8_t* pixels() { return pixels_.data(); }
  PixelRows next(int64_t count) override {
    const uint8_t* first = pixels_.data() + row_ * stride_;
    row_ += count;
    return {first, stride_};
  }

 private:
  std::vector<uint8_t> pixels_;
  int64_t stride_, row_ = 0;
};

}  // namespace

std::optional<ImageFormat> image_format(std::span<const uint8_t> first_bytes) {
  if (starts_with(first_bytes, kJpegStart)) return ImageFormat::jpeg;
  if (starts_with(first_bytes, kPngStart)) return ImageFormat::png;
  return std::nullopt;
}

ImageHeader read_image_header(std::span<const uint8_t> file, const std::string& name) {
  const auto format = image_format(file);
  check<IoError>(format.has_value(),
                 "{}: neither a JPEG nor a PNG file by its first bytes; convert it to one of them",
                 name);
  return *format == ImageFormat::jpeg ? read_jpeg_header(file, name) : read_png_header(file, name);
}

void decode_image(std::span<const uint8_t> file, const ImageHeader& header,
                  const ImageRegion& region, uint8_t* destination, const std::string& name,
                  const DecodeOptions& options) {
  const int denominator = options.scale_denominator;
  const ImageRegion stored = checked_region(header, region, name, denominator);
  if (header.orientation == 1)
    return decode_stored(file, header, stored, denominator, destination, name);
  std::vector<uint8_t> pixels(static_cast<size_t>(stored.height * stored.width * header.channels));
  decode_stored(file, header, stored, denominator, pixels.data(), name);
  copy_turned(pixels.data(), stored.height, stored.width, header.channels,
              turn_of(header.orientation), destination);
}

std::unique_ptr<RowReader> decode_rows(std::span<const uint8_t> file, const ImageHeader& header,
                                       const ImageRegion& region, const std::string& name,
                                       const DecodeOptions& options) {
  const int denominator = options.scale_denominator;
  const ImageRegion stored = checked_region(header, region, name, denominator);
  if (header.format == ImageFormat::jpeg && header.orientation == 1)
    return read_jpeg_rows(file, header, stored, denominator, name);
  auto rows = std::make_unique<DecodedRows>(region.height, region.width * header.channels);
  decode_image(file, header, region, rows->pixels(), name, options);
  return rows;
}

}  // namespace facula::io
