// The safetensors format (https://github.com/huggingface/safetensors, section "Format"), at the
// level of bytes: the header's length as a little-endian 64-bit number, a JSON header that gives
// each tensor's dtype, shape and place, then the data, little-endian and row-major.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <facula/dtype.h>
#include <facula/safetensors.h>

#include "io/file.h"

namespace facula {
class Tensor;
}

namespace facula::io {

/// One tensor. `dtype` is the format's own name: "F32", "BF16", "I64", "BOOL", ... `data` may have
/// any alignment in files that others wrote: copy it with memcpy.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::span<const uint8_t> data;
};

using facula::SafetensorsMetadata;

/// Reads a file. The constructors validate it completely - a valid JSON header of at most 100 MB
/// without repeated or unknown keys, known dtypes, sizes that match the shapes, data without holes,
/// overlaps or rest - and throw IoError, so that the rest of the class needs no checks. Data is
/// never copied. Files so full of tiny tensors that loading them would take more than four times
/// their size and 64 MiB are refused; those of 300 bytes and more a tensor, besides its name, never
/// are.
class SafetensorsReader {
 public:
  /// Maps `path`. The entries' data is valid as long as this object.
  explicit SafetensorsReader(const std::string& path, Mapping mapping = Mapping::read_only);
  /// Reads bytes owned by the caller, which must outlive the entries. `source` names them in
  /// messages.
  SafetensorsReader(std::span<const uint8_t> file, const std::string& source);

  /// All tensors in the order of their data.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  /// The tensor called `name`, or null.
  const SafetensorsEntry* find(std::string_view name) const;
  const SafetensorsMetadata& metadata() const { return metadata_; }

 private:
  void parse(std::span<const uint8_t> file, const std::string& source);

  std::optional<MappedFile> file_;
  std::vector<SafetensorsEntry> entries_;
  std::vector<size_t> by_name_;  // Indices into entries_, sorted by name.
  SafetensorsMetadata metadata_;
};

/// The format's name of each DType.
inline constexpr std::string_view kSafetensorsDTypes[kDTypeCount] = {
    "F32", "F64", "I32", "I64", "U8", "BOOL", "F16", "BF16", "I8", "I16"};

/// The tensor of an entry of the reader of `path`. Where dtype and alignment allow, it lies in the
/// mapping, which must be copy_on_write, and keeps it alive; elsewhere it is a copy. Throws
/// DTypeError or ShapeError for what no Tensor can be.
Tensor tensor_over(const std::shared_ptr<const SafetensorsReader>& reader,
                   const SafetensorsEntry& entry, const std::string& path);

/// The entry of a contiguous tensor on the CPU, which must outlive it.
SafetensorsEntry entry_of(const std::string& name, const Tensor& tensor);

/// Writes a file atomically (see AtomicFile). Tensors are placed by element size, largest first,
/// then by name, so that each is aligned to its element size and equal content gives equal files.
/// Throws ValueError for an unknown dtype, data that does not match its shape, a repeated or
/// reserved name or text that is not UTF-8, and IoError if the file cannot be written.
void write_safetensors(const std::string& path, std::span<const SafetensorsEntry> entries,
                       const SafetensorsMetadata& metadata = {});

}  // namespace facula::io
