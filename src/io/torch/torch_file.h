// What torch.save and torch.jit.save write: a pickle that describes tensors, and the bytes of their
// storages, in a zip archive or (before PyTorch 1.6) one after the other.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <facula/state_dict.h>

namespace facula::io {

enum class TorchFormat : uint8_t { zip, legacy, torchscript };
/// "zip", "legacy" or "TorchScript".
const char* name_of(TorchFormat format);

/// Memory that one or several tensors share.
struct TorchStorage {
  std::string key;            ///< the file's own name for it
  uint64_t element_size = 1;  ///< in which the file counts; 1 for bytes of any dtype
  std::string device;         ///< where it lay when it was saved: "cpu", "cuda:0", ...
  uint64_t bytes = 0;
};

struct TorchTensor {
  std::string name;  ///< dotted, as load() names it
  /// PyTorch's name without the prefix: "float32", "complex64", "qint8", ...
  std::string_view dtype;
  std::optional<DType> facula_dtype;  ///< none for a dtype that Facula lacks
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  ///< in elements
  uint64_t offset = 0;           ///< of the first element in the storage, in elements
  size_t storage = 0;            ///< index into storages()
};

/// Reads a file. The constructors parse and validate everything but the storages' bytes: names,
/// dtypes, and that each tensor lies within its storage and each storage within the file; they
/// throw IoError otherwise. Nothing is executed, see load_torch. Memory use of the description is
/// bounded by three times the size of the file and 56 MiB.
class TorchFileReader {
 public:
  /// Maps `path`.
  explicit TorchFileReader(const std::string& path);
  /// Reads bytes owned by the caller, which must outlive this object. `source` names them in
  /// messages.
  TorchFileReader(std::span<const uint8_t> file, const std::string& source);
  TorchFileReader(TorchFileReader&& other) noexcept;
  TorchFileReader& operator=(TorchFileReader&& other) noexcept;
  ~TorchFileReader();

  TorchFormat format() const;
  /// All tensors, in the order of the file.
  const std::deque<TorchTensor>& tensors() const;
  const std::deque<TorchStorage>& storages() const;
  /// The tree that load() returns, with undefined tensors.
  const StateDict& structure() const;
  /// The functions and classes that the file names, all of them harmless: "torch.FloatStorage".
  const std::vector<std::string>& globals() const;

  /// One tensor with its elements; tensors read by one reader share storages as the file says.
  /// Throws IoError if the storage is damaged and DTypeError if Facula lacks the dtype.
  Tensor tensor(size_t index);
  /// Everything, with the structure moved out: a reader can do this once.
  StateDict load();

 private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

/// Whether the file begins like one of those: a zip archive with a pickle in the right place, or
/// the legacy format's magic number.
bool is_torch_file(std::span<const uint8_t> file);

}  // namespace facula::io
