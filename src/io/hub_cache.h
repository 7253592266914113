// Downloaded files, kept by the SHA-256 of their content.
//
//   files/SHA256          the files
//   addresses/SHA256      of an address: the SHA-256 of its file, and the address
//   partial/SHA256        of an address: what has arrived so far; who writes there holds its lock
#pragma once

#include <cstdint>
#include <string>

namespace facula::io {

/// Where to find a file, and what it must be.
struct WantedFile {
  std::string url;
  /// 8 to 64 lower-case hexadecimal digits that the SHA-256 begins with, or none.
  std::string sha256;
};

class HubCache {
 public:
  explicit HubCache(std::string folder) : folder_(std::move(folder)) {}

  /// The whole SHA-256 of the wanted content if it is known: given, or remembered; else empty.
  std::string content_of(const WantedFile& wanted) const;
  /// The path of the file if it is there and undamaged, else empty. A damaged one is removed.
  std::string find(const WantedFile& wanted) const;
  /// Downloads the file; find() would have been asked before. Throws IoError.
  std::string fetch(const WantedFile& wanted, int64_t timeout) const;

  /// Where the file of that content is.
  std::string path_of(const std::string& sha256) const { return folder_ + "/files/" + sha256; }

 private:
  std::string folder_;
};

/// The digits that end a name as PyTorch writes it, resnet18-f37072fd.pth; empty if there are none.
/// Decimal ones are no checksum but a date, a time or a count: of PyTorch's names, which have eight
/// digits, one in forty has decimal ones, and then goes without; files of model-20240115.pth would
/// all be refused.
std::string sha256_in_name(const std::string& url);

}  // namespace facula::io
