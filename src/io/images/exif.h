// The one entry of EXIF data that changes what an image shows.
#pragma once

#include <cstdint>
#include <span>

namespace facula::io {

/// The orientation, 1 to 8, that a TIFF structure (EXIF 2.3, 4.5.4; what follows "Exif\0\0" in a
/// JPEG file) states in its first directory. 1 where it states none or is damaged: cameras and
/// editors write so much broken EXIF data that pictures must not be refused for it.
int exif_orientation(std::span<const uint8_t> tiff);

}  // namespace facula::io
