// JPEG and PNG files made for tests, and the plainest way to decode a JPEG file.
#pragma once

#include <cstdint>
#include <cstdio>  // jpeglib.h needs FILE
#include <cstdlib>

#include <jpeglib.h>
#include <png.h>

#include <array>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace facula::io {

using Bytes = std::vector<uint8_t>;

/// Dense pixels, channels innermost.
struct Pixels {
  int64_t height = 0, width = 0, channels = 0;
  Bytes bytes;

  uint8_t at(int64_t y, int64_t x, int64_t c) const {
    return bytes[static_cast<size_t>((y * width + x) * channels + c)];
  }
  bool operator==(const Pixels&) const = default;
};

/// Slopes, an edge and noise: no two rows or columns are alike.
inline Pixels test_pixels(int64_t height, int64_t width, int64_t channels) {
  Pixels image{height, width, channels, {}};
  uint32_t random = 12345;
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < channels; ++c) {
        random = random * 1664525 + 1013904223;
        const int64_t noise = random >> 27, edge = (x * 3 + y * 2) % 61 < 20 ? 90 : 0;
        image.bytes.push_back(
            static_cast<uint8_t>((x * (c + 2) + y * (3 - c) + noise + edge) % 256));
      }
  return image;
}

inline Pixels cut(const Pixels& image, int64_t top, int64_t left, int64_t height, int64_t width) {
  Pixels part{height, width, image.channels, {}};
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < image.channels; ++c)
        part.bytes.push_back(image.at(top + y, left + x, c));
  return part;
}

/// A TIFF structure that holds nothing but an orientation.
inline Bytes exif_with_orientation(int orientation, bool little = false) {
  const auto low = static_cast<uint8_t>(orientation);
  if (little)
    return {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, low, 0, 0, 0, 0, 0, 0, 0};
  return {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, low, 0, 0, 0, 0, 0, 0};
}

struct JpegSettings {
  /// Samples of the first component per sample of the others, across and down.
  int across = 1, down = 1;
  bool progressive = false;
  bool arithmetic = false;
  int quality = 85;
  int restart_interval = 0;
  int orientation = 0;  // 0: no EXIF segment
  bool ycck = false;    // of four channels: YCCK instead of CMYK
};

/// `image` as a JPEG file; four channels are stored as they are, as inverted CMYK.
inline Bytes encode_jpeg(const Pixels& image, const JpegSettings& settings = {}) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.input_components = static_cast<int>(image.channels);
  info.in_color_space = image.channels == 1   ? JCS_GRAYSCALE
                        : image.channels == 3 ? JCS_RGB
                                              : JCS_CMYK;
  jpeg_set_defaults(&info);
  if (settings.ycck) jpeg_set_colorspace(&info, JCS_YCCK);
  jpeg_set_quality(&info, settings.quality, TRUE);
  info.comp_info[0].h_samp_factor = settings.across;
  info.comp_info[0].v_samp_factor = settings.down;
  info.restart_interval = static_cast<unsigned>(settings.restart_interval);
  info.arith_code = settings.arithmetic ? TRUE : FALSE;
  if (settings.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  if (settings.orientation != 0) {
    Bytes exif = {'E', 'x', 'i', 'f', 0, 0};
    const Bytes tiff = exif_with_orientation(settings.orientation, settings.orientation % 2 == 0);
    exif.insert(exif.end(), tiff.begin(), tiff.end());
    jpeg_write_marker(&info, JPEG_APP0 + 1, exif.data(), static_cast<unsigned>(exif.size()));
  }
  for (int64_t y = 0; y < image.height; ++y) {
    auto* row = const_cast<uint8_t*>(image.bytes.data() + y * image.width * image.channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const Bytes file(buffer, buffer + size);
  std::free(buffer);
  return file;
}

/// All of a JPEG file, in the colours that libjpeg gives without being asked for any.
inline Pixels decode_all(const Bytes& file, unsigned scale_denominator = 1) {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, file.data(), static_cast<unsigned long>(file.size()));
  jpeg_read_header(&info, TRUE);
  info.scale_denom = scale_denominator;
  jpeg_start_decompress(&info);
  Pixels image{info.output_height, info.output_width, info.output_components, {}};
  image.bytes.resize(static_cast<size_t>(image.height * image.width * image.channels));
  while (info.output_scanline < info.output_height) {
    uint8_t* row = image.bytes.data() + info.output_scanline * image.width * image.channels;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_destroy_decompress(&info);
  return image;
}

struct PngSettings {
  int color_type = PNG_COLOR_TYPE_RGB, bit_depth = 8;
  bool interlaced = false;
  int orientation = 0;
};

/// A PNG file of rows that are already packed as `settings` says. Palettes hold colour
/// (i, 255 - i, i / 2) at i.
inline Bytes encode_png(int64_t height, int64_t width, const std::vector<Bytes>& rows,
                        const PngSettings& settings = {}) {
  Bytes file;
  png_structp png = png_create_write_struct(
      PNG_LIBPNG_VER_STRING, nullptr,
      [](png_structp, png_const_charp message) { throw std::runtime_error(message); }, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp target, png_bytep data, size_t size) {
        auto& bytes = *static_cast<Bytes*>(png_get_io_ptr(target));
        bytes.insert(bytes.end(), data, data + size);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height),
               settings.bit_depth, settings.color_type,
               settings.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (settings.color_type == PNG_COLOR_TYPE_PALETTE) {
    std::array<png_color, 256> palette;
    for (size_t i = 0; i < palette.size(); ++i)
      palette[i] = {static_cast<uint8_t>(i), static_cast<uint8_t>(255 - i),
                    static_cast<uint8_t>(i / 2)};
    png_set_PLTE(png, info, palette.data(), 1 << settings.bit_depth);
    const uint8_t transparent = 7;
    png_set_tRNS(png, info, &transparent, 1, nullptr);
  }
  if (settings.orientation != 0) {
    Bytes tiff = exif_with_orientation(settings.orientation);
    png_set_eXIf_1(png, info, static_cast<png_uint_32>(tiff.size()), tiff.data());
  }
  png_write_info(png, info);
  const int passes = png_set_interlace_handling(png);
  for (int pass = 0; pass < passes; ++pass)
    for (const Bytes& row : rows) png_write_row(png, row.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

/// Grey or RGB pixels with eight bits.
inline Bytes encode_png(const Pixels& image, PngSettings settings = {}) {
  if (image.channels == 1) settings.color_type = PNG_COLOR_TYPE_GRAY;
  std::vector<Bytes> rows;
  const int64_t row_bytes = image.width * image.channels;
  for (int64_t y = 0; y < image.height; ++y)
    rows.emplace_back(image.bytes.begin() + y * row_bytes,
                      image.bytes.begin() + (y + 1) * row_bytes);
  return encode_png(image.height, image.width, rows, settings);
}

}  // namespace facula::io
