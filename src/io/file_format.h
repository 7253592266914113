// What a file is, by its first bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace facula::io {

/// Formats that Facula reads, or hands to a reader that finds out more.
enum class FileKind : uint8_t { safetensors, zip, npy, pickle, other };

struct FileFormat {
  FileKind kind;
  std::string_view name;    ///< of one that is not read: "ONNX", "HDF5"; kUnknownFormat
  std::string_view remedy;  ///< what to do about that
};

inline constexpr std::string_view kUnknownFormat = "unknown";

/// Looks at the bytes only. A file that is damaged may be taken for one of another format; that of
/// a valid file is always found.
FileFormat recognise(std::span<const uint8_t> file);

}  // namespace facula::io
