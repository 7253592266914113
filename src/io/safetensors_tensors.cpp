#include <facula/safetensors.h>

#include <cstring>

#include "base/check.h"
#include "io/safetensors.h"

namespace facula {
namespace {

/// The format's names, in the order of DType.
constexpr const char* kDTypeNames[kDTypeCount] = {"F32",  "F64", "I32",  "I64", "U8",
                                                  "BOOL", "F16", "BF16", "I8",  "I16"};

DType dtype_of_entry(const io::SafetensorsEntry& entry, const std::string& path) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (entry.dtype == kDTypeNames[i]) return static_cast<DType>(i);
  }
  fail<DTypeError>(
      "{}: tensor '{}' has dtype {}, which Facula lacks; convert "
      "it before saving",
      path, entry.name, entry.dtype);
}

}  // namespace

void save_safetensors(const StateDict& state, const std::string& path) {
  std::vector<Tensor> dense;  // keeps the bytes alive until they are written
  std::vector<io::SafetensorsEntry> entries;
  for (const auto& [name, value] : state.flat()) {
    const auto* tensor = value->get_if<Tensor>();
    check<ValueError>(tensor != nullptr && tensor->defined(),
                      "save_safetensors: '{}' is {}, the format holds tensors "
                      "only; leave it out",
                      name, tensor ? "an undefined tensor" : value->kind_name());
    const Tensor& values = dense.emplace_back(tensor->detach().cpu().contiguous());
    entries.push_back({.name = name,
                       .dtype = kDTypeNames[static_cast<int>(values.dtype())],
                       .shape = values.sizes().vec(),
                       .data = {static_cast<const std::uint8_t*>(values.raw_data()),
                                static_cast<std::size_t>(values.nbytes())}});
  }
  io::write_safetensors(path, entries);
}

StateDict load_safetensors(const std::string& path) {
  const io::SafetensorsReader reader(path);
  StateDict state;
  for (const auto& entry : reader.entries()) {
    Tensor tensor = empty(entry.shape, dtype_of_entry(entry, path));
    if (!entry.data.empty()) std::memcpy(tensor.raw_data(), entry.data.data(), entry.data.size());
    try {
      state.set(entry.name, std::move(tensor));
    } catch (const ValueError& error) {
      fail<IoError>("{}: the name '{}' cannot be used: {}", path, entry.name, error.what());
    }
  }
  return state;
}

}  // namespace facula
