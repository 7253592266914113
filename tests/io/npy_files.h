// Makes npy files for tests.
#pragma once

#include <string>

namespace facula::io {

inline std::string npy_bytes(const std::string& header, const std::string& data,
                             char version = '\1') {
  std::string file = "\x93NUMPY";
  file += version;
  file += '\0';
  const auto length = header.size();
  file += {static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  if (version != '\1') file += {'\0', '\0'};
  return file + header + data;
}

/// As NumPy writes it: the elements begin at a multiple of 64 bytes.
inline std::string npy_file(const std::string& descr, const std::string& shape,
                            const std::string& data, bool fortran_order = false) {
  std::string header = "{'descr': '" + descr +
                       "', 'fortran_order': " + (fortran_order ? "True" : "False") +
                       ", 'shape': " + shape + ", }";
  header.resize((10 + header.size() + 64) / 64 * 64 - 11, ' ');
  return npy_bytes(header + '\n', data);
}

}  // namespace facula::io
