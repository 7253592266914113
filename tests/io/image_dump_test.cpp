// Decodes the files that image_parity_test.py names, for it to compare with what Pillow makes of
// them. The file FACULA_IMAGE_FILES lists paths; for each, FACULA_IMAGE_FILES.out gets height,
// width and channels as int64, then the pixels; three zeros for an IoError.
#include <cstdlib>
#include <fstream>
#include <string>

#include "io/file.h"
#include "io/images/image_file.h"
#include "tests/io/encode_image.h"
#include "tests/io/test_files.h"

namespace facula::io {
namespace {

Pixels decode(const std::string& path) {
  const Bytes file = read_file(path, size_t{1} << 28);
  const ImageHeader header = read_image_header(file, path);
  Pixels image{header.height, header.width, header.channels, {}};
  image.bytes.resize(static_cast<size_t>(header.height * header.width * header.channels));
  decode_image(file, header, {0, 0, header.height, header.width}, image.bytes.data(), path);
  return image;
}

TEST(ImageDump, Write) {
  const char* list = std::getenv("FACULA_IMAGE_FILES");
  if (!list) GTEST_SKIP() << "FACULA_IMAGE_FILES, a list of files, is not set";
  std::ifstream paths(list);
  std::ofstream output(std::string(list) + ".out", std::ios::binary);
  for (std::string path; std::getline(paths, path);) {
    Pixels image;
    try {
      image = decode(path);
    } catch (const IoError&) {
    }
    const int64_t sizes[] = {image.height, image.width, image.channels};
    output.write(reinterpret_cast<const char*>(sizes), sizeof sizes);
    output.write(reinterpret_cast<const char*>(image.bytes.data()), std::ssize(image.bytes));
  }
}

}  // namespace
}  // namespace facula::io
