// NumPy's format for one array (numpy.lib.format, versions 1.0 to 3.0).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <facula/dtype.h>

namespace facula::io {

/// An array of numbers as its file describes it.
struct NpyFile {
  std::string dtype;                  ///< NumPy's text: "<f4", ">u2", "|b1", ...
  std::optional<DType> facula_dtype;  ///< none for those that Facula lacks: uint16, complex, ...
  uint64_t item_size = 0;             ///< bytes of an element
  bool big_endian = false;            ///< never where a byte is all there is to an element
  bool fortran_order = false;         ///< column-major
  std::vector<int64_t> shape;
  std::span<const uint8_t> data;
};

/// Parses a .npy file, normally one that is mapped. The header, a literal of a Python dictionary,
/// is read by a parser of exactly that. Throws IoError for a damaged header, unless dtype and shape
/// account for every byte that follows, and for arrays that are not of numbers: objects, which are
/// pickles and could run code; records; text; dates. `source` names the bytes in messages.
NpyFile read_npy(std::span<const uint8_t> file, const std::string& source);

/// An array of a dtype that Facula has, where it lies in a file.
struct NpyArray {
  DType dtype = kFloat32;
  std::vector<int64_t> shape;
  /// In elements, row-major unless the file says Fortran order.
  std::vector<int64_t> strides;
  /// The elements, little-endian. Files of others need not align them: copy with memcpy.
  std::span<const uint8_t> data;
};

/// The same; also throws IoError for arrays that are not little-endian, or of a dtype that Facula
/// lacks.
NpyArray parse_npy(std::span<const uint8_t> file, const std::string& source);

}  // namespace facula::io
