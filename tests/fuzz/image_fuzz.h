// What must hold for any bytes given to the image decoders.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include <facula/error.h>

#include "io/images/image_file.h"

namespace facula::io {

/// The end of an input, after the bytes of the file, says what is decoded. seeds.py writes it.
struct ImageChoices {
  uint8_t scale, top, left, height, width, rows;
};

/// Whether decoding does not end in an IoError.
template <class Action>
bool decodes(const Action& action) {
  try {
    action();
  } catch (const IoError&) {
    return false;
  }
  return true;
}

/// A part, some rows at a time, of an image of which everything is in `whole` if it is `complete`:
/// then the part must be there, too, and be equal.
inline void check_part(std::span<const uint8_t> file, const ImageHeader& header,
                       const DecodeOptions& options, const ImageRegion& part, int64_t rows_at_once,
                       const uint8_t* whole, int64_t whole_width, bool complete) {
  const int64_t bytes = part.width * header.channels;
  const bool decoded = decodes([&] {
    const auto reader = decode_rows(file, header, part, "fuzz", options);
    for (int64_t y = 0; y < part.height; y += rows_at_once) {
      const int64_t count = std::min(rows_at_once, part.height - y);
      const PixelRows rows = reader->next(count);
      for (int64_t i = 0; complete && i < count; ++i) {
        const uint8_t* expected =
            whole + ((part.top + y + i) * whole_width + part.left) * header.channels;
        if (std::memcmp(rows.pixels + i * rows.stride, expected, static_cast<size_t>(bytes)) != 0)
          std::abort();
      }
    }
  });
  if (complete && !decoded) std::abort();
}

/// They end in an image or an IoError, at every scale that the format has; every region of an image
/// can be decoded and equals that of the whole.
inline void decode_whole_and_part(std::span<const uint8_t> input) {
  // Larger ones take too long for a fuzzer, and nothing else happens to them.
  constexpr int64_t kMostPixels = 1 << 18;
  ImageChoices choices;
  if (input.size() < sizeof choices) return;
  const std::span<const uint8_t> file = input.first(input.size() - sizeof choices);
  std::memcpy(&choices, file.data() + file.size(), sizeof choices);

  ImageHeader header;
  if (!decodes([&] { header = read_image_header(file, "fuzz"); })) return;
  if (header.height * header.width > kMostPixels) return;
  const int scale = header.format == ImageFormat::jpeg ? 1 << choices.scale % 4 : 1;
  const int64_t height = (header.height + scale - 1) / scale;
  const int64_t width = (header.width + scale - 1) / scale;
  std::vector<uint8_t> whole(static_cast<size_t>(height * width * header.channels));
  const bool complete = decodes([&] {
    decode_image(file, header, {0, 0, height, width}, whole.data(), "fuzz", {scale});
  });

  ImageRegion part = {choices.top * height / 256, choices.left * width / 256};
  part.height = 1 + choices.height * (height - part.top) / 256;
  part.width = 1 + choices.width * (width - part.left) / 256;
  check_part(file, header, {scale}, part, 1 + choices.rows % 40, whole.data(), width, complete);
}

}  // namespace facula::io
