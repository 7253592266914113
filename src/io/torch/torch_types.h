// The names that torch.save uses: element types, storages, and the functions that rebuild things.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <facula/dtype.h>

namespace facula::io {

struct TorchType {
  std::string_view dtype;  ///< PyTorch's name without the prefix; "untyped" for bytes of any dtype
  uint64_t size;           ///< bytes of an element
  std::optional<DType> facula_dtype;
  std::string_view storage;  ///< "FloatStorage"; empty where there is none
};

/// The element type of "torch.FloatStorage", "torch.cuda.FloatStorage", "torch.UntypedStorage", ...
/// Null for another name.
const TorchType* torch_type_of_storage(std::string_view global);
/// That of "torch.float32"; null for another name.
const TorchType* torch_type_of_dtype(std::string_view global);
/// That of a dtype of ours.
const TorchType& torch_type_of(DType dtype);

/// Tensors of a kind that Facula lacks: the function that rebuilds them, and what to do.
struct TorchLackingKind {
  std::string_view function, kind, remedy;
};
/// Null for another function.
const TorchLackingKind* torch_lacking_kind(std::string_view function);

/// Whether a file of torch.save may name "module.function": what tensors, containers and numbers
/// are rebuilt with. None of them is ever called.
bool is_allowed_in_torch_save(std::string_view global);
/// The same for TorchScript, whose files also name the classes of their own modules.
bool is_allowed_in_torchscript(std::string_view global);

}  // namespace facula::io
