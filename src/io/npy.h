// NumPy's format for one array (numpy.lib.format, versions 1.0 to 3.0).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <facula/dtype.h>

namespace facula::io {

/// An array where it lies in a file.
struct NpyArray {
  DType dtype = kFloat32;
  std::vector<int64_t> shape;
  /// In elements, row-major unless the file says Fortran order.
  std::vector<int64_t> strides;
  /// The elements, little-endian. Files of others need not align them: copy with memcpy.
  std::span<const uint8_t> data;
};

/// Parses a .npy file, normally one that is mapped. The header, a literal of a Python dictionary,
/// is read by a parser of exactly that. Throws IoError for a damaged header, unless dtype and shape
/// account for every byte that follows, and for arrays that are not of numbers (objects, which are
/// pickles and could run code; records; text; dates), not little-endian, or of a dtype that Facula
/// lacks. `source` names the bytes in messages.
NpyArray parse_npy(std::span<const uint8_t> file, const std::string& source);

}  // namespace facula::io
