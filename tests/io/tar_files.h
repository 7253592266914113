// Makes tar archives for tests.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace facula::io {

/// A header block with the right checksum.
inline std::string tar_header(std::string_view name, const std::string& size, char type = '0',
                              std::string_view magic = std::string_view("ustar\0"
                                                                        "00",
                                                                        8)) {
  std::string block(512, '\0');
  const auto put_at = [&](size_t offset, std::string_view text) {
    std::copy(text.begin(), text.end(), block.begin() + static_cast<std::ptrdiff_t>(offset));
  };
  put_at(0, name);
  put_at(100, "0000644");
  put_at(124, size);
  put_at(148, "        ");
  block[156] = type;
  put_at(257, magic);
  int sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put_at(148, fmt::format("{:06o}", sum) + '\0');
  return block;
}

/// `data` filled up to whole blocks.
inline std::string tar_data(std::string data) {
  data.resize((data.size() + 511) / 512 * 512);
  return data;
}

inline std::string tar_member(std::string_view name, const std::string& data, char type = '0') {
  return tar_header(name, fmt::format("{:011o}", data.size()), type) + tar_data(data);
}

/// The blocks of zeros that end an archive.
inline std::string tar_end() { return std::string(1024, '\0'); }

}  // namespace facula::io
