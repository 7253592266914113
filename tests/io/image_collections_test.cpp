// The image decoders on collections of files that others made to test or to break decoders.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include "io/images/image_file.h"
#include "tests/io/encode_image.h"
#include "tests/io/shared_files.h"
#include "tests/io/test_files.h"

namespace facula::io {
namespace {

Pixels decode(const Bytes& file, const ImageHeader& header, const ImageRegion& region,
              const std::string& name) {
  Pixels image{region.height, region.width, header.channels, {}};
  image.bytes.resize(static_cast<size_t>(region.height * region.width * header.channels));
  decode_image(file, header, region, image.bytes.data(), name);
  return image;
}

Pixels decode(const Bytes& file, const std::string& name) {
  const ImageHeader header = read_image_header(file, name);
  return decode(file, header, {0, 0, header.height, header.width}, name);
}

/// A file gives an image, of which a part equals the cut, or an IoError that names it. True if it
/// gives an image.
bool decodes(const Bytes& file, const std::string& name) {
  try {
    const Pixels image = decode(file, name);
    const ImageHeader header = read_image_header(file, name);
    const ImageRegion part = {image.height / 3, image.width / 4, (image.height + 2) / 3,
                              (image.width + 1) / 2};
    EXPECT_EQ(decode(file, header, part, name),
              cut(image, part.top, part.left, part.height, part.width))
        << name;
    return true;
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    return false;
  }
}

int count_decoded(const std::map<std::string, Bytes>& files) {
  return static_cast<int>(std::ranges::count_if(
      files, [](const auto& file) { return decodes(file.second, file.first); }));
}

TEST(ImageCollections, EveryFileGivesAnImageOrAnError) {
  FACULA_REQUIRE_SHARED_DATA(path, "images/jpeg-tests.tar.xz");
  const int decoded = count_decoded(shared_files(path, ""));
  EXPECT_GE(decoded, 108);
}

TEST(ImageCollections, MaliciousFilesGiveAnImageOrAnError) {
  FACULA_REQUIRE_SHARED_DATA(path, "adversarial/adversarial.tar.xz");
  const auto files = shared_files(path, "jpeg/");
  EXPECT_GE(files.size(), 200u);
  EXPECT_LE(count_decoded(files), 60);
}

/// Decoders may differ by how they round: in the inverse transform, in interpolating colours, and
/// in converting them.
TEST(ImageCollections, JpegEqualsItsReferencePng) {
  FACULA_REQUIRE_SHARED_DATA(path, "images/jpeg-tests.tar.xz");
  constexpr int kRounding = 3;
  const auto files = shared_files(path, "reftest/images/");
  int compared = 0;
  for (const auto& [name, file] : files) {
    if (!name.ends_with(".jpg") || name.find("/lossless/") != std::string::npos) continue;
    const auto reference = files.find(name.substr(0, name.size() - 4) + ".png");
    if (reference == files.end()) continue;
    const Pixels image = decode(file, name);
    const Pixels expected = decode(reference->second, reference->first);
    ASSERT_EQ(image.height, expected.height) << name;
    ASSERT_EQ(image.width, expected.width) << name;
    ASSERT_EQ(image.channels, expected.channels) << name;
    int difference = 0;
    for (size_t i = 0; i < image.bytes.size(); ++i)
      difference = std::max(difference, std::abs(image.bytes[i] - expected.bytes[i]));
    EXPECT_LE(difference, kRounding) << name;
    ++compared;
  }
  EXPECT_GE(compared, 37);
}

}  // namespace
}  // namespace facula::io
