#include "io/images/png.h"

#include <zlib.h>

#include <cstring>
#include <string>

#include "io/images/image_file.h"
#include "tests/io/encode_image.h"
#include "tests/io/test_files.h"

namespace facula::io {
namespace {

Pixels decode(const Bytes& file, ImageRegion region = {}) {
  const ImageHeader header = read_image_header(file, "test.png");
  if (region.height == 0) region = {0, 0, header.height, header.width};
  Pixels image{region.height, region.width, header.channels, {}};
  image.bytes.resize(static_cast<size_t>(region.height * region.width * header.channels));
  decode_image(file, header, region, image.bytes.data(), "test.png");
  return image;
}

void expect_all_regions(const Bytes& file, const Pixels& whole) {
  ASSERT_EQ(decode(file), whole);
  for (int64_t top = 0; top < whole.height; top += 3)
    for (int64_t left = 0; left < whole.width; left += 2)
      for (int64_t height = 1; height <= whole.height - top; height += 4)
        for (int64_t width = 1; width <= whole.width - left; width += 5)
          ASSERT_EQ(decode(file, {top, left, height, width}), cut(whole, top, left, height, width))
              << top << ' ' << left << ' ' << height << ' ' << width;
}

TEST(Png, GreyAndRgb) {
  for (const int64_t channels : {1, 3})
    for (const bool interlaced : {false, true}) {
      const Pixels image = test_pixels(13, 17, channels);
      const Bytes file = encode_png(image, {.interlaced = interlaced});
      const ImageHeader header = read_image_header(file, "test.png");
      EXPECT_EQ(header.height, 13);
      EXPECT_EQ(header.width, 17);
      EXPECT_EQ(header.channels, channels);
      expect_all_regions(file, image);
    }
  const Pixels dot = test_pixels(1, 1, 3);
  EXPECT_EQ(decode(encode_png(dot, {.interlaced = true})), dot);
}

TEST(Png, AlphaIsDroppedAndSixteenBitsAreCut) {
  struct Case {
    int color_type;
    int64_t samples, colors;
  };
  for (const Case& c : {Case{PNG_COLOR_TYPE_GRAY, 1, 1}, Case{PNG_COLOR_TYPE_GRAY_ALPHA, 2, 1},
                        Case{PNG_COLOR_TYPE_RGB, 3, 3}, Case{PNG_COLOR_TYPE_RGB_ALPHA, 4, 3}})
    for (const int depth : {8, 16})
      for (const bool interlaced : {false, true}) {
        const int64_t bytes = depth / 8;
        const Pixels packed = test_pixels(9, 11, c.samples * bytes);
        std::vector<Bytes> rows;
        Pixels expected{9, 11, c.colors, {}};
        for (int64_t y = 0; y < 9; ++y) {
          const auto first = packed.bytes.begin() + y * 11 * packed.channels;
          rows.emplace_back(first, first + 11 * packed.channels);
          for (int64_t x = 0; x < 11; ++x)
            for (int64_t i = 0; i < c.colors; ++i)
              expected.bytes.push_back(packed.at(y, x, i * bytes));
        }
        const Bytes file =
            encode_png(9, 11, rows,
                       {.color_type = c.color_type, .bit_depth = depth, .interlaced = interlaced});
        expect_all_regions(file, expected);
      }
}

TEST(Png, PalettesAndFewBits) {
  for (const bool palette : {false, true})
    for (const int depth : {1, 2, 4, 8})
      for (const bool interlaced : {false, true}) {
        const int64_t width = 11, per_byte = 8 / depth;
        std::vector<Bytes> rows(6, Bytes(static_cast<size_t>((width + per_byte - 1) / per_byte)));
        Pixels expected{6, width, palette ? 3 : 1, {}};
        for (int64_t y = 0; y < 6; ++y)
          for (int64_t x = 0; x < width; ++x) {
            const auto value = static_cast<int>((x * 7 + y * 5) % (1 << depth));
            rows[static_cast<size_t>(y)][static_cast<size_t>(x / per_byte)] |=
                static_cast<uint8_t>(value << (8 - depth - depth * (x % per_byte)));
            if (palette)
              for (const int c : {value, 255 - value, value / 2})
                expected.bytes.push_back(static_cast<uint8_t>(c));
            else
              expected.bytes.push_back(static_cast<uint8_t>(value * 255 / ((1 << depth) - 1)));
          }
        const int color_type = palette ? PNG_COLOR_TYPE_PALETTE : PNG_COLOR_TYPE_GRAY;
        expect_all_regions(
            encode_png(6, width, rows,
                       {.color_type = color_type, .bit_depth = depth, .interlaced = interlaced}),
            expected);
      }
}

TEST(Png, Orientation) {
  const Pixels image = test_pixels(4, 7, 3);
  const Bytes file = encode_png(image, {.orientation = 6});
  const Pixels upright = decode(file);
  ASSERT_EQ(upright.height, 7);
  ASSERT_EQ(upright.width, 4);
  for (int64_t y = 0; y < 7; ++y)
    for (int64_t x = 0; x < 4; ++x) EXPECT_EQ(upright.at(y, x, 1), image.at(3 - x, y, 1));
  expect_all_regions(file, upright);
}

TEST(Png, TruncatedAtEveryByte) {
  for (const bool interlaced : {false, true}) {
    const Bytes file = encode_png(test_pixels(13, 17, 3), {.interlaced = interlaced});
    constexpr size_t kEndChunk = 12;
    for (size_t size = 0; size < file.size() - kEndChunk; ++size) {
      const Bytes part(file.begin(), file.begin() + static_cast<ptrdiff_t>(size));
      try {
        decode(part);
        ADD_FAILURE() << size << " of " << file.size() << " bytes were accepted";
      } catch (const IoError& error) {
        if (size >= 8) {
          EXPECT_NE(std::string(error.what()).find("test.png"), std::string::npos) << error.what();
        }
      }
    }
  }
}

TEST(Png, CorruptBytesAreNoticed) {
  const Pixels image = test_pixels(13, 17, 3);
  const Bytes file = encode_png(image);
  constexpr size_t kEndChunk = 12;
  for (size_t i = 8; i < file.size() - kEndChunk; ++i)
    for (const uint8_t mask : {0x01, 0x80, 0xff}) {
      Bytes damaged = file;
      damaged[i] ^= mask;
      EXPECT_THROW(decode(damaged), IoError) << i;
    }
}

Bytes with_size(Bytes file, uint32_t height, uint32_t width) {
  for (size_t i = 0; i < 4; ++i) {
    file[16 + i] = static_cast<uint8_t>(width >> (24 - 8 * i));
    file[20 + i] = static_cast<uint8_t>(height >> (24 - 8 * i));
  }
  const auto sum = static_cast<uint32_t>(crc32(0, file.data() + 12, 17));
  for (size_t i = 0; i < 4; ++i) file[29 + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
  return file;
}

TEST(Png, HeadersThatPromiseTooMuch) {
  const Bytes file = encode_png(test_pixels(13, 17, 3));
  expect_error([&] { decode(with_size(file, 0xffffffff, 0xffffffff)); },
               {"test.png", "4294967295x4294967295", "268435456"});
  expect_error([&] { decode(with_size(file, 0, 17)); }, {"0x17"});
  expect_error([&] { decode(with_size(file, 4000, 4000)); }, {"cannot hold the 4000x4000"});
  expect_error([&] { decode(with_size(file, 14, 17)); }, {"test.png"});
  Bytes odd = file;
  odd[25] = 5;
  expect_error([&] { decode(odd); }, {"colour type 5"});
  odd = file;
  odd[24] = 3;
  expect_error([&] { decode(odd); }, {"3 bits"});
}

TEST(Png, ScalesAreRefused) {
  const Bytes file = encode_png(test_pixels(8, 8, 3));
  const ImageHeader header = read_image_header(file, "test.png");
  uint8_t pixel[3];
  expect_error<ValueError>(
      [&] {
        decode_image(file, header, {0, 0, 1, 1}, pixel, "test.png", {.scale_denominator = 2});
      },
      {"test.png", "1/2"});
}

}  // namespace
}  // namespace facula::io
