// PNG files through libpng.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "io/images/image_file.h"

namespace facula::io {

/// See read_image_header.
ImageHeader read_png_header(std::span<const uint8_t> file, const std::string& name);

/// Decodes `stored`, a region of the image as it is stored, to dense rows. Rows below it are not
/// read unless the file is interlaced.
void decode_png(std::span<const uint8_t> file, const ImageHeader& header, const ImageRegion& stored,
                uint8_t* destination, const std::string& name);

}  // namespace facula::io
