// SHA-256 checksums of files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace facula::io {

class FileDescriptor;

/// 64 lower-case hexadecimal digits.
std::string sha256_of(std::span<const uint8_t> bytes);
std::string sha256_of(std::string_view text);
/// Of a file's content, read piece by piece. Throws IoError.
std::string sha256_of_file(const std::string& path);
/// Of what follows in an open file, which `path` names in messages.
std::string sha256_of_file(const FileDescriptor& file, const std::string& path);

}  // namespace facula::io
