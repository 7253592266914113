// JPEG files through libjpeg-turbo.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/images/image_file.h"

namespace facula::io {

/// See read_image_header.
ImageHeader read_jpeg_header(std::span<const uint8_t> file, const std::string& name);

/// The rows of `stored`, a region of the image as it is stored, divided by `scale_denominator` (1,
/// 2, 4 or 8). Only the blocks that the region needs are transformed, and nothing after its last
/// row is read. `file` and `name` must outlive the result.
std::unique_ptr<RowReader> read_jpeg_rows(std::span<const uint8_t> file, const ImageHeader& header,
                                          const ImageRegion& stored, int scale_denominator,
                                          const std::string& name);

}  // namespace facula::io
