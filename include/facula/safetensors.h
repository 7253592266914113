// Files of named tensors in the safetensors format
// (https://github.com/huggingface/safetensors).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <facula/state_dict.h>

namespace facula {

/// What a file says about one of its tensors.
struct TensorInfo {
  std::string name;
  /// The format's own name: "F32", "BF16", "U16", "F8_E4M3", ...
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

/// An open safetensors file, of which nothing but the header has been read:
///
///   SafetensorsFile file("model.safetensors");
///   Tensor rows = file.slice("embedding.weight", 1000, 1010);   // loads these rows only
///
/// The file is mapped: tensors lie in the system's page cache, are loaded when first used, and stay
/// valid after this object is gone. Writing into one copies the pages concerned and never changes
/// the file. All tensors of one name share their elements. Replacing the file (as save_safetensors
/// does) is safe while it is mapped, truncating or overwriting it is not: use load_safetensors for
/// files that others change in place. Any number of threads may call the member functions.
class FACULA_API SafetensorsFile {
 public:
  /// Validates the whole header. Throws IoError for a file that is missing or damaged, and for one
  /// of so many tiny tensors (below 300 bytes) that they would take four times its size and 64 MiB.
  explicit SafetensorsFile(const std::string& path);
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;
  ~SafetensorsFile();

  /// In the order of their data.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  /// Throws ValueError if there is no such tensor, as do the two below. Knows dtypes that Facula
  /// lacks.
  TensorInfo info(std::string_view name) const;
  /// The tensor, on the CPU, without a copy unless its data is not aligned to its element size, or
  /// boolean.
  /// Throws DTypeError for a dtype that Facula lacks.
  Tensor tensor(std::string_view name) const;
  /// Entries [begin, end) of the first dimension: a view of tensor(name), or a copy of just that
  /// part. Throws IndexError for a range outside it.
  Tensor slice(std::string_view name, std::int64_t begin, std::int64_t end) const;
  /// All tensors.
  StateDict state_dict() const;
  const SafetensorsMetadata& metadata() const;

 private:
  struct Impl;
  Impl* impl_;
};

/// Writes the tensors of `state` under their dotted names. Whatever happens,
/// either the old file or the complete new one is there; equal states give
/// equal files. Throws ValueError if the state holds anything but tensors, or so
/// many tiny ones that the file could not be read, and IoError if it cannot be written.
FACULA_API void save_safetensors(const StateDict& state, const std::string& path,
                                 const SafetensorsMetadata& metadata = {});

/// Reads all tensors of `path` into memory of their own, on the CPU and with all threads:
///   model.load_state_dict(load_safetensors("model.safetensors"));
/// Throws IoError as SafetensorsFile does and DTypeError for a dtype that Facula
/// lacks.
FACULA_API StateDict load_safetensors(const std::string& path);

}  // namespace facula
