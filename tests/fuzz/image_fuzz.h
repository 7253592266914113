// What must hold for any bytes given to the image decoders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include <facula/error.h>

#include "io/images/image_file.h"

namespace facula::io {

/// They end in an image or an IoError; every region of an image can be decoded and equals that of
/// the whole. The region is chosen by the last bytes.
inline void decode_whole_and_part(std::span<const uint8_t> file, int scale_denominator) {
  // Larger ones take too long for a fuzzer, and nothing else happens to them.
  constexpr int64_t kMostPixels = 1 << 18;
  try {
    const ImageHeader header = read_image_header(file, "fuzz");
    if (header.format != ImageFormat::jpeg) scale_denominator = 1;
    const DecodeOptions options = {scale_denominator};
    const int64_t height = (header.height + scale_denominator - 1) / scale_denominator;
    const int64_t width = (header.width + scale_denominator - 1) / scale_denominator;
    if (header.height * header.width > kMostPixels) return;
    const auto row = static_cast<size_t>(width * header.channels);
    std::vector<uint8_t> whole(static_cast<size_t>(height) * row);
    decode_image(file, header, {0, 0, height, width}, whole.data(), "fuzz", options);

    const auto choice = [&](size_t i) { return int64_t{file[file.size() - i]}; };
    const int64_t top = choice(1) * height / 256, left = choice(2) * width / 256;
    const int64_t rows = 1 + choice(3) * (height - top) / 256;
    const int64_t columns = 1 + choice(4) * (width - left) / 256;
    const auto part_row = static_cast<size_t>(columns * header.channels);
    std::vector<uint8_t> part(static_cast<size_t>(rows) * part_row);
    decode_image(file, header, {top, left, rows, columns}, part.data(), "fuzz", options);
    for (int64_t y = 0; y < rows; ++y)
      if (std::memcmp(part.data() + static_cast<size_t>(y) * part_row,
                      whole.data() + static_cast<size_t>(top + y) * row +
                          static_cast<size_t>(left * header.channels),
                      part_row) != 0)
        std::abort();
  } catch (const IoError&) {
  }
}

}  // namespace facula::io
