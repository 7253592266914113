#include "io/torch/torch_types.h"

#include <algorithm>
#include <iterator>

namespace facula::io {
namespace {

constexpr TorchType kTypes[] = {
    {"float32", 4, kFloat32, "FloatStorage"},
    {"float64", 8, kFloat64, "DoubleStorage"},
    {"float16", 2, kFloat16, "HalfStorage"},
    {"bfloat16", 2, kBFloat16, "BFloat16Storage"},
    {"int64", 8, kInt64, "LongStorage"},
    {"int32", 4, kInt32, "IntStorage"},
    {"int16", 2, kInt16, "ShortStorage"},
    {"int8", 1, kInt8, "CharStorage"},
    {"uint8", 1, kUInt8, "ByteStorage"},
    {"bool", 1, kBool, "BoolStorage"},
    {"uint16", 2, {}, ""},
    {"uint32", 4, {}, ""},
    {"uint64", 8, {}, ""},
    {"complex32", 4, {}, "ComplexHalfStorage"},
    {"complex64", 8, {}, "ComplexFloatStorage"},
    {"complex128", 16, {}, "ComplexDoubleStorage"},
    {"float8_e4m3fn", 1, {}, "Float8_e4m3fnStorage"},
    {"float8_e5m2", 1, {}, "Float8_e5m2Storage"},
    {"float8_e4m3fnuz", 1, {}, ""},
    {"float8_e5m2fnuz", 1, {}, ""},
    {"float8_e8m0fnu", 1, {}, ""},
    {"float4_e2m1fn_x2", 1, {}, ""},
    {"qint8", 1, {}, "QInt8Storage"},
    {"quint8", 1, {}, "QUInt8Storage"},
    {"qint32", 4, {}, "QInt32Storage"},
    {"untyped", 1, {}, "UntypedStorage"},
};

constexpr std::string_view kAllowed[] = {
    "__builtin__.bytearray",
    "__builtin__.bytes",
    "__builtin__.complex",
    "__builtin__.dict",
    "__builtin__.frozenset",
    "__builtin__.list",
    "__builtin__.set",
    "__builtin__.tuple",
    "_codecs.encode",
    "builtins.bytearray",
    "builtins.bytes",
    "builtins.complex",
    "builtins.dict",
    "builtins.frozenset",
    "builtins.list",
    "builtins.set",
    "builtins.tuple",
    "collections.Counter",
    "collections.OrderedDict",
    "collections.defaultdict",
    "numpy._core.multiarray.scalar",
    "numpy.core.multiarray.scalar",
    "numpy.dtype",
    "torch.Size",
    "torch.Tensor",
    "torch._tensor._rebuild_from_type_v2",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch._utils._rebuild_qtensor",
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch.device",
    "torch.nn.parameter.Buffer",
    "torch.nn.parameter.Parameter",
    "torch.per_channel_affine",
    "torch.per_tensor_affine",
    "torch.serialization._get_layout",
};

constexpr TorchLackingKind kLackingKinds[] = {
    {"torch._utils._rebuild_sparse_tensor", "a sparse tensor", "save its to_dense()"},
    {"torch._utils._rebuild_sparse_csr_tensor", "a sparse tensor", "save its to_dense()"},
    {"torch._utils._rebuild_nested_tensor", "a nested tensor", "save its to_padded_tensor(0)"},
    {"torch._utils._rebuild_meta_tensor_no_storage", "a tensor without elements (device meta)",
     "save the model with its weights"},
};

constexpr std::string_view kAllowedInTorchScript[] = {
    "torch.jit._pickle.build_boollist",   "torch.jit._pickle.build_doublelist",
    "torch.jit._pickle.build_intlist",    "torch.jit._pickle.build_tensorlist",
    "torch.jit._pickle.restore_type_tag",
};

const TorchType* find(auto&& matches) {
  const auto* found = std::ranges::find_if(kTypes, matches);
  return found == std::end(kTypes) ? nullptr : found;
}

}  // namespace

const TorchType* torch_type_of_storage(std::string_view global) {
  for (const std::string_view prefix : {"torch.cuda.", "torch.storage.", "torch."}) {
    if (!global.starts_with(prefix)) continue;
    const std::string_view name = global.substr(prefix.size());
    return find([&](const TorchType& type) { return !name.empty() && type.storage == name; });
  }
  return nullptr;
}

const TorchType* torch_type_of_dtype(std::string_view global) {
  constexpr std::string_view prefix = "torch.";
  if (!global.starts_with(prefix) || global == "torch.untyped") return nullptr;
  return find([&](const TorchType& type) { return type.dtype == global.substr(prefix.size()); });
}

const TorchType& torch_type_of(DType dtype) {
  return *find([&](const TorchType& type) { return type.facula_dtype == dtype; });
}

const TorchLackingKind* torch_lacking_kind(std::string_view function) {
  const auto* found = std::ranges::find(kLackingKinds, function, &TorchLackingKind::function);
  return found == std::end(kLackingKinds) ? nullptr : found;
}

bool is_allowed_in_torch_save(std::string_view global) {
  return std::ranges::find(kAllowed, global) != std::end(kAllowed) || torch_lacking_kind(global) ||
         torch_type_of_storage(global) || torch_type_of_dtype(global);
}

bool is_allowed_in_torchscript(std::string_view global) {
  return is_allowed_in_torch_save(global) || global.starts_with("__torch__.") ||
         std::ranges::find(kAllowedInTorchScript, global) != std::end(kAllowedInTorchScript);
}

}  // namespace facula::io
