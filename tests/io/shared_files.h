// The compressed archives of the shared data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/archives/compression.h"
#include "io/archives/tar.h"

namespace facula::io {

/// The files of a compressed archive whose names contain `part`.
inline std::map<std::string, std::vector<uint8_t>> shared_files(const std::string& path,
                                                                std::string_view part) {
  constexpr size_t kMaxArchive = size_t{1} << 28;
  const auto archive = decompress_file(path, kMaxArchive);
  TarReader reader(archive, path);
  std::map<std::string, std::vector<uint8_t>> files;
  while (const auto member = reader.next()) {
    std::string name = member->name;
    if (name.starts_with("./")) name.erase(0, 2);
    if (name.find(part) != std::string::npos) {
      files[name] = {member->bytes.begin(), member->bytes.end()};
    }
  }
  return files;
}

}  // namespace facula::io
