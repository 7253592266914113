// Images that stay in their files until somebody wants to see them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/pixel_source.h"

namespace facula::data {

enum class FileColors : std::uint8_t {
  as_stored,  ///< grey files have one channel, others three
  rgb,        ///< always three
};

/// Reads the file at `path` and the header in it; pixels are decoded whenever they are asked for.
/// Holds as many bytes as the file has. JPEG files are decoded at 1/2, 1/4 or 1/8 of their size
/// where that leaves `shorter_side` pixels or more, unless it is 0. Throws IoError.
std::shared_ptr<const PixelSource> open_image_file(const std::string& path,
                                                   FileColors colors = FileColors::as_stored,
                                                   std::int64_t shorter_side = 0);

}  // namespace facula::data
