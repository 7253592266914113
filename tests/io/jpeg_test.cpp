#include "io/images/jpeg.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include "io/file.h"
#include "io/images/image_file.h"
#include "tests/io/encode_image.h"
#include "tests/io/test_files.h"

namespace facula::io {
namespace {

constexpr int64_t kWhole = -1;

Pixels decode(const Bytes& file, ImageRegion region = {0, 0, kWhole, kWhole},
              DecodeOptions options = {}) {
  const ImageHeader header = read_image_header(file, "test.jpg");
  const auto scaled = [&](int64_t size) {
    return (size + options.scale_denominator - 1) / options.scale_denominator;
  };
  if (region.height == kWhole) region.height = scaled(header.height);
  if (region.width == kWhole) region.width = scaled(header.width);
  Pixels image{region.height, region.width, header.channels, {}};
  // Bytes before and after show whether anything is written outside.
  constexpr size_t kGuard = 64;
  const auto size = static_cast<size_t>(region.height * region.width * header.channels);
  Bytes guarded(size + 2 * kGuard, 0xa5);
  decode_image(file, header, region, guarded.data() + kGuard, "test.jpg", options);
  for (size_t i = 0; i < kGuard; ++i)
    EXPECT_EQ((guarded[i] << 8) | guarded[kGuard + size + i], 0xa5a5);
  image.bytes.assign(guarded.begin() + kGuard, guarded.end() - kGuard);
  return image;
}

/// Many regions of many places and sizes, the narrowest and the whole included.
std::vector<ImageRegion> regions_of(int64_t height, int64_t width) {
  std::vector<ImageRegion> regions = {{0, 0, height, width},
                                      {0, 0, 1, 1},
                                      {height - 1, width - 1, 1, 1},
                                      {0, width - 1, height, 1},
                                      {height / 2, 0, 1, width}};
  uint32_t random = 99;
  const auto below = [&](int64_t bound) {
    random = random * 1664525 + 1013904223;
    return static_cast<int64_t>((uint64_t{random} * static_cast<uint64_t>(bound)) >> 32);
  };
  for (int i = 0; i < 40; ++i) {
    const int64_t top = below(height), left = below(width);
    regions.push_back({top, left, 1 + below(height - top), 1 + below(width - left)});
  }
  return regions;
}

void expect_regions_of(const Bytes& file, const Pixels& whole, const std::string& what,
                       DecodeOptions options = {}) {
  for (const ImageRegion& r : regions_of(whole.height, whole.width))
    ASSERT_EQ(decode(file, r, options), cut(whole, r.top, r.left, r.height, r.width))
        << what << ": region " << r.top << ' ' << r.left << ' ' << r.height << ' ' << r.width;
}

TEST(Jpeg, RegionsEqualCutsOfTheWhole) {
  constexpr int kSampling[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}, {2, 4}};
  constexpr int64_t kSizes[][2] = {{61, 83}, {64, 64}, {7, 130}, {130, 5},
                                   {33, 17}, {1, 1},   {3, 3}};
  for (const auto [height, width] : kSizes)
    for (const auto [across, down] : kSampling)
      for (const bool progressive : {false, true})
        for (const int restart : {0, 3}) {
          const Bytes file =
              encode_jpeg(test_pixels(height, width, 3), {.across = across,
                                                          .down = down,
                                                          .progressive = progressive,
                                                          .restart_interval = restart});
          expect_regions_of(file, decode_all(file),
                            std::to_string(height) + 'x' + std::to_string(width) + " sampled " +
                                std::to_string(across) + 'x' + std::to_string(down) +
                                (progressive ? " progressive" : ""));
        }
}

TEST(Jpeg, GreyHasOneChannel) {
  for (const int sampling : {1, 2})
    for (const bool progressive : {false, true}) {
      const Bytes file =
          encode_jpeg(test_pixels(61, 83, 1),
                      {.across = sampling, .down = sampling, .progressive = progressive});
      EXPECT_EQ(read_image_header(file, "g.jpg").channels, 1);
      expect_regions_of(file, decode_all(file), "grey");
    }
}

TEST(Jpeg, ScaledOnlyWhenAskedFor) {
  // Colours of 4x2 and 2x4 are scaled by one factor and interpolated by another.
  constexpr int kSampling[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}, {2, 4}};
  for (const int denominator : {2, 4, 8})
    for (const auto [across, down] : kSampling) {
      const Bytes file = encode_jpeg(test_pixels(61, 83, 3), {.across = across, .down = down});
      const Pixels whole = decode_all(file, static_cast<unsigned>(denominator));
      EXPECT_EQ(whole.width, (83 + denominator - 1) / denominator);
      expect_regions_of(file, whole, "1/" + std::to_string(denominator),
                        {.scale_denominator = denominator});
    }
  const Bytes file = encode_jpeg(test_pixels(8, 8, 3));
  expect_error<ValueError>(
      [&] {
        decode(file, {0, 0, 1, 1}, {.scale_denominator = 3});
      },
      {"test.jpg", "1/3"});
}

TEST(Jpeg, ArithmeticCoding) {
  for (const bool progressive : {false, true})
    for (const int restart : {0, 3}) {
      const Bytes file = encode_jpeg(test_pixels(61, 83, 3), {.across = 2,
                                                              .down = 2,
                                                              .progressive = progressive,
                                                              .arithmetic = true,
                                                              .restart_interval = restart});
      expect_regions_of(file, decode_all(file), "arithmetic");
    }
}

/// Where the frame header's height stands: after the marker, the length and the precision.
size_t height_at(const Bytes& file, uint8_t frame) {
  const Bytes marker = {0xff, frame};
  const auto found = std::search(file.begin(), file.end(), marker.begin(), marker.end());
  return static_cast<size_t>(found - file.begin()) + 5;
}

TEST(Jpeg, ArithmeticCodingOfBlankImages) {
  const Pixels blank{2048, 2048, 1, Bytes(2048 * 2048, 200)};
  Bytes file = encode_jpeg(blank, {.arithmetic = true});
  ASSERT_LT(file.size(), 1000u);  // Huffman coding needs 8192
  EXPECT_EQ(decode(file), blank);
  const size_t at = height_at(file, 0xc9);
  file[at] = 0x40;
  expect_error([&] { decode(file); }, {"test.jpg", "16384x2048", "arithmetic", "jpegtran"});
}

TEST(Jpeg, InvertedCmykBecomesRgb) {
  for (const bool ycck : {false, true}) {
    const Bytes file = encode_jpeg(test_pixels(29, 45, 4), {.ycck = ycck});
    const Pixels cmyk = decode_all(file);
    ASSERT_EQ(cmyk.channels, 4);
    Pixels rgb{29, 45, 3, {}};
    for (int64_t y = 0; y < 29; ++y)
      for (int64_t x = 0; x < 45; ++x)
        for (int64_t c = 0; c < 3; ++c) {
          const int ink = 255 - cmyk.at(y, x, c), light = cmyk.at(y, x, 3);
          const int absorbed = static_cast<int>(ink * light / 255.0 + 0.5);
          rgb.bytes.push_back(static_cast<uint8_t>(light - absorbed));
        }
    EXPECT_EQ(read_image_header(file, "c.jpg").channels, 3);
    expect_regions_of(file, rgb, ycck ? "YCCK" : "CMYK");
  }
}

/// The pixel of the stored image that is seen at (y, x), from the EXIF standard's table of what the
/// 0th row and the 0th column stand for.
std::pair<int64_t, int64_t> stored_at(int orientation, int64_t y, int64_t x, int64_t height,
                                      int64_t width) {
  switch (orientation) {
    case 2: return {y, width - 1 - x};
    case 3: return {height - 1 - y, width - 1 - x};
    case 4: return {height - 1 - y, x};
    case 5: return {x, y};
    case 6: return {height - 1 - x, y};
    case 7: return {height - 1 - x, width - 1 - y};
    case 8: return {x, width - 1 - y};
    default: return {y, x};
  }
}

TEST(Jpeg, OrientationsAndRegionsOfThem) {
  constexpr int64_t kHeight = 29, kWidth = 45;
  for (const int64_t channels : {1, 3})
    for (int orientation = 0; orientation <= 9; ++orientation) {
      const Bytes file = encode_jpeg(test_pixels(kHeight, kWidth, channels),
                                     {.across = 2, .down = 2, .orientation = orientation});
      const Pixels stored = decode_all(file);
      const bool turned = orientation >= 5 && orientation <= 8;
      Pixels upright{turned ? kWidth : kHeight, turned ? kHeight : kWidth, channels, {}};
      for (int64_t y = 0; y < upright.height; ++y)
        for (int64_t x = 0; x < upright.width; ++x) {
          const auto [row, column] = stored_at(orientation, y, x, kHeight, kWidth);
          for (int64_t c = 0; c < channels; ++c) upright.bytes.push_back(stored.at(row, column, c));
        }
      const ImageHeader header = read_image_header(file, "o.jpg");
      EXPECT_EQ(header.height, upright.height);
      EXPECT_EQ(header.width, upright.width);
      expect_regions_of(file, upright, "orientation " + std::to_string(orientation));
    }
}

TEST(Jpeg, TruncatedAtEveryByte) {
  for (const bool progressive : {false, true}) {
    const Bytes file =
        encode_jpeg(test_pixels(24, 40, 3), {.across = 2, .down = 2, .progressive = progressive});
    size_t decoded = 0;
    for (size_t size = 0; size < file.size(); ++size) {
      const Bytes part(file.begin(), file.begin() + static_cast<ptrdiff_t>(size));
      try {
        decode(part);
        ++decoded;
      } catch (const IoError& error) {
        EXPECT_NE(std::string(error.what()).find("test.jpg"), std::string::npos) << error.what();
      }
    }
    // Only the end marker may be missing, which no pixel needs.
    EXPECT_LE(decoded, 2u);
    expect_error([&] { decode({file.begin(), file.end() - 100}); }, {"test.jpg", "truncated"});
  }
}

TEST(Jpeg, RowsAboveADefectCanBeRead) {
  Bytes file = encode_jpeg(test_pixels(256, 64, 3));
  const Pixels whole = decode_all(file);
  file.resize(file.size() / 2);
  EXPECT_EQ(decode(file, {16, 8, 32, 40}), cut(whole, 16, 8, 32, 40));
  EXPECT_THROW(decode(file), IoError);
}

TEST(Jpeg, CorruptBytesGiveAnImageOrAnError) {
  for (const bool progressive : {false, true}) {
    const Bytes file =
        encode_jpeg(test_pixels(24, 40, 3), {.across = 2, .down = 1, .progressive = progressive});
    int failures = 0;
    for (size_t i = 0; i < file.size(); ++i)
      for (const uint8_t mask : {0x01, 0x80, 0xff}) {
        Bytes damaged = file;
        damaged[i] ^= mask;
        try {
          const ImageHeader header = read_image_header(damaged, "test.jpg");
          if (header.height * header.width < 10000) decode(damaged);
        } catch (const IoError&) {
          ++failures;
        }
      }
    EXPECT_GT(failures, 100);
  }
}

TEST(Jpeg, HeadersThatPromiseTooMuch) {
  Bytes file = encode_jpeg(test_pixels(24, 40, 3));
  const size_t at = height_at(file, 0xc0);
  Bytes large = file;
  large[at] = large[at + 2] = 0x7f;
  expect_error([&] { decode(large); }, {"test.jpg", "32536x32552", "the limit is 268435456"});
  large[at + 2] = 0x10;
  expect_error([&] { decode(large); }, {"test.jpg", "cannot hold the 32536x4136"});
  Bytes empty = file;
  empty[at] = empty[at + 1] = 0;
  expect_error([&] { decode(empty); }, {"test.jpg", "0x40"});
  Bytes twelve = file;
  twelve[at - 1] = 12;
  expect_error([&] { decode(twelve); }, {"12 bits"});
  Bytes lossless = file;
  lossless[at - 4] = 0xc3;
  expect_error([&] { decode(lossless); }, {"process 3", "baseline"});
  Bytes two = file;
  two[at + 4] = 2;
  expect_error([&] { decode(two); }, {"2 components"});
}

/// Where the scans of a file start.
std::vector<size_t> scans_of(const Bytes& file) {
  std::vector<size_t> scans;
  for (size_t i = 0; i + 1 < file.size(); ++i)
    if (file[i] == 0xff && file[i + 1] == 0xda) scans.push_back(i);
  return scans;
}

TEST(Jpeg, ProgressiveFilesThatLackScans) {
  // What is missing is estimated from the blocks around.
  const Bytes file =
      encode_jpeg(test_pixels(61, 83, 3), {.across = 2, .down = 2, .progressive = true});
  const auto scans = scans_of(file);
  for (size_t kept = 1; kept < scans.size(); ++kept) {
    Bytes part(file.begin(), file.begin() + static_cast<ptrdiff_t>(scans[kept]));
    part.insert(part.end(), {0xff, 0xd9});
    expect_regions_of(part, decode_all(part), std::to_string(kept) + " scans");
  }
}

TEST(Jpeg, EndlessScansAreStopped) {
  const Bytes file = encode_jpeg(test_pixels(24, 40, 1), {.progressive = true});
  const auto scans = scans_of(file);
  ASSERT_GE(scans.size(), 3u);
  // The second scan, and the tables of the third, again and again.
  const auto second = file.begin() + static_cast<ptrdiff_t>(scans[1]);
  const auto third = file.begin() + static_cast<ptrdiff_t>(scans[2]);
  Bytes bomb(file.begin(), second);
  for (int i = 0; i < 5000; ++i) bomb.insert(bomb.end(), second, third);
  bomb.insert(bomb.end(), {0xff, 0xd9});
  expect_error([&] { decode(bomb); }, {"test.jpg", "more than 100 scans"});
}

TEST(Jpeg, CoefficientsThatTakeTooMuchMemory) {
  Bytes file = encode_jpeg(test_pixels(24, 40, 3), {.progressive = true});
  const size_t at = height_at(file, 0xc2);
  file[at] = file[at + 2] = 16000 >> 8;
  file.resize(500'000);  // long enough for 16000 x 16000 pixels
  const ImageHeader header = read_image_header(file, "test.jpg");
  uint8_t pixel[3];
  expect_error(
      [&] {
        decode_image(file, header, {0, 0, 1, 1}, pixel, "test.jpg");
      },
      {"test.jpg", "more than 1024 MiB"});
}

TEST(Jpeg, RegionsOutsideAreRefused) {
  const Bytes file = encode_jpeg(test_pixels(8, 12, 3), {.orientation = 6});
  for (const ImageRegion& region : {ImageRegion{-1, 0, 2, 2},
                                    {0, 0, 13, 8},
                                    {0, 0, 12, 9},
                                    {11, 0, 2, 1},
                                    {0, 0, 0, 1},
                                    {INT64_MAX, 0, 1, 1}})
    expect_error<ValueError>([&] { decode(file, region); }, {"test.jpg", "12x8"});
}

TEST(Jpeg, BrokenExifIsIgnored) {
  Bytes file = encode_jpeg(test_pixels(8, 12, 3), {.orientation = 6});
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const size_t tiff = text.find("Exif") + 6;
  for (size_t i = 0; i < 20; ++i)
    for (int value = 0; value < 256; ++value) {
      Bytes damaged = file;
      damaged[tiff + i] = static_cast<uint8_t>(value);
      const ImageHeader header = read_image_header(damaged, "e.jpg");
      EXPECT_EQ(header.height * header.width, 96);
    }
}

TEST(Jpeg, OtherFilesAreTold) {
  EXPECT_EQ(image_format(bytes_of("GIF89a..")), std::nullopt);
  EXPECT_EQ(image_format({}), std::nullopt);
  expect_error([] { read_image_header(bytes_of("GIF89a.."), "a.gif"); },
               {"a.gif", "neither a JPEG nor a PNG"});
}

}  // namespace
}  // namespace facula::io
