// NumPy's archives of several arrays.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <facula/tensor.h>

#include "io/archives/zip.h"
#include "io/arrays/npy.h"

namespace facula::io {

/// Whether all members are named as those of an npz file; also where there are none.
bool is_npz(const ZipReader& zip);

/// The arrays of an npz file that lies in memory, normally a mapping, which must outlive this
/// object.
class NpzReader {
 public:
  /// Throws IoError if it is no such archive. `source` names it in messages.
  NpzReader(std::span<const uint8_t> file, const std::string& source);

  size_t size() const { return zip_.members().size(); }
  /// Without ".npy".
  std::string name(size_t index) const;
  /// What the array is; `data` is empty. Reads the header only, unless the member is compressed.
  /// Throws IoError for a damaged one, or one that is not of numbers.
  NpyFile describe(size_t index) const;
  /// Throws IoError, and DTypeError for a dtype that Facula lacks.
  Tensor tensor(size_t index) const;

 private:
  std::string source_of(size_t index) const;

  std::string source_;
  ZipReader zip_;
};

/// The elements of a parsed file as a contiguous tensor with memory of its own.
Tensor npy_tensor(const NpyFile& file, const std::string& source);

}  // namespace facula::io
