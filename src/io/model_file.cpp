#include <facula/model_file.h>

#include <facula/checkpoint.h>
#include <facula/npy.h>
#include <facula/torch_file.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "io/arrays/npz.h"
#include "io/bounded.h"
#include "io/checkpoint.h"
#include "io/file.h"
#include "io/file_format.h"
#include "io/safetensors/safetensors.h"
#include "io/state_entry.h"
#include "io/torch/torch_file.h"

namespace facula {
namespace {

using ByteSpan = std::span<const std::uint8_t>;

/// What a file turned out to be, safetensors files and zip archives told apart.
enum class Format { safetensors, checkpoint, npy, npz, torch };

/// Throws IoError for everything that is not read.
Format format_of(ByteSpan file, const std::string& path) {
  const io::FileFormat found = io::recognise(file);
  switch (found.kind) {
    case io::FileKind::safetensors:
      return io::is_checkpoint(io::SafetensorsReader(file, path)) ? Format::checkpoint
                                                                  : Format::safetensors;
    case io::FileKind::npy: return Format::npy;
    case io::FileKind::zip:
      return io::is_npz(io::ZipReader(file, path)) ? Format::npz : Format::torch;
    case io::FileKind::pickle:
      check<IoError>(io::is_torch_file(file),
                     "{}: a Python pickle that torch.save did not write; pickles can run code, so "
                     "export the weights as safetensors where it was made",
                     path);
      return Format::torch;
    case io::FileKind::other: break;
  }
  // The name may say what a damaged file was, and its reader what is wrong with it.
  if (found.name == io::kUnknownFormat && path.ends_with(".safetensors"))
    io::SafetensorsReader(file, path);
  fail<IoError>("{}: not a file of weights that Facula reads (it looks like: {}); {}", path,
                found.name, found.remedy);
}

std::string text_of(const StateValue& value) {
  if (const auto* text = value.get_if<std::string>()) return *text;
  if (const auto* boolean = value.get_if<bool>()) return *boolean ? "true" : "false";
  if (const auto* integer = value.get_if<std::int64_t>()) return std::to_string(*integer);
  if (const auto* number = value.get_if<double>()) return fmt::format("{}", *number);
  if (const auto* bytes = value.get_if<Bytes>()) return fmt::format("{} bytes", bytes->size());
  return value.kind_name();
}

/// Notes that a tensor cannot be loaded; the first reason counts.
void refuse(ModelFileInfo& info, const std::string& path, const TensorInfo& tensor,
            bool known_dtype) {
  if (!info.refusal.empty()) return;
  if (!known_dtype) {
    info.refusal = fmt::format(
        "{}: tensor {} has dtype {}, which Facula lacks; convert it before "
        "saving",
        path, io::quote_name(tensor.name), tensor.dtype);
  } else if (tensor.shape.size() > kMaxDims) {
    info.refusal = fmt::format(
        "{}: tensor {} has {} dimensions, a tensor has {} at most; reshape it before "
        "saving",
        path, io::quote_name(tensor.name), tensor.shape.size(), kMaxDims);
  }
}

/// What stands beside the tensors.
void note_values(ModelFileInfo& info, const StateDict& structure) {
  for (const auto& [leaf, value] : structure.flat()) {
    if (!value->get_if<Tensor>()) info.metadata.emplace_back(leaf, text_of(*value));
  }
}

/// Throws IoError if one StateDict cannot hold all tensors.
void check_names(const ModelFileInfo& info, const std::string& path) {
  StateDict names;
  for (const TensorInfo& tensor : info.tensors) io::add_entry(names, tensor.name, Tensor(), path);
}

void describe_safetensors(ModelFileInfo& info, ByteSpan file, const std::string& path) {
  const io::SafetensorsReader reader(file, path);
  for (const auto& entry : reader.entries()) {
    info.tensors.push_back({entry.name, entry.dtype, entry.shape, entry.data.size()});
    const auto* known = std::ranges::find(io::kSafetensorsDTypes, entry.dtype);
    refuse(info, path, info.tensors.back(), known != std::end(io::kSafetensorsDTypes));
  }
  if (io::is_checkpoint(reader)) {
    info.format = "Facula checkpoint";
    note_values(info, io::describe_checkpoint(reader, path));
  } else {
    info.format = "safetensors";
    for (const auto& [key, text] : reader.metadata()) info.metadata.emplace_back(key, text);
    check_names(info, path);
  }
}

void describe_torch(ModelFileInfo& info, ByteSpan file, const std::string& path) {
  const io::TorchFileReader reader(file, path);
  const char* name = io::name_of(reader.format());
  info.format =
      reader.format() == io::TorchFormat::torchscript ? name : fmt::format("torch {}", name);
  std::map<std::size_t, std::vector<std::string>> users;
  for (const io::TorchTensor& tensor : reader.tensors()) {
    // Sizes were checked against the storages, but expanded tensors repeat elements.
    std::uint64_t bytes = reader.storages()[tensor.storage].bytes;
    if (tensor.facula_dtype) {
      std::uint64_t dense = size_of(*tensor.facula_dtype);
      bool overflow = false;
      for (const std::int64_t size : tensor.shape)
        overflow |= __builtin_mul_overflow(dense, static_cast<std::uint64_t>(size), &dense);
      if (!overflow) bytes = dense;
    }
    info.tensors.push_back({tensor.name, std::string(tensor.dtype), tensor.shape, bytes});
    users[tensor.storage].push_back(tensor.name);
    refuse(info, path, info.tensors.back(), tensor.facula_dtype.has_value());
  }
  for (auto& [storage, names] : users) {
    if (names.size() > 1) info.shared.push_back(std::move(names));
  }
  note_values(info, reader.structure());
}

void add_npy(ModelFileInfo& info, const io::NpyFile& file, std::string name,
             const std::string& path) {
  std::uint64_t bytes = file.item_size;  // their product was checked
  for (const std::int64_t size : file.shape) bytes *= static_cast<std::uint64_t>(size);
  info.tensors.push_back({std::move(name), file.dtype, file.shape, bytes});
  refuse(info, path, info.tensors.back(), file.facula_dtype.has_value());
}

void describe(ModelFileInfo& info, ByteSpan file, const std::string& path) {
  switch (format_of(file, path)) {
    case Format::safetensors:
    case Format::checkpoint: return describe_safetensors(info, file, path);
    case Format::torch: return describe_torch(info, file, path);
    case Format::npy:
      info.format = "npy";
      return add_npy(info, io::read_npy(file, path), "tensor", path);
    case Format::npz: {
      info.format = "npz";
      const io::NpzReader reader(file, path);
      for (std::size_t i = 0; i < reader.size(); ++i)
        add_npy(info, reader.describe(i), reader.name(i), path);
      check_names(info, path);
    }
  }
}

}  // namespace

StateDict load_weights(const std::string& path) {
  const Format format = [&] {
    const io::MappedFile file(path);
    return format_of(file.bytes(), path);
  }();
  switch (format) {
    case Format::safetensors: return load_safetensors(path);
    case Format::checkpoint: return load_checkpoint(path);
    case Format::torch: return load_torch(path);
    case Format::npz: return load_npz(path);
    case Format::npy: break;
  }
  StateDict state;
  state.set("tensor", load_npy(path));
  return state;
}

void save_weights(const StateDict& state, const std::string& path) {
  const auto ends = [&](std::string_view suffix) { return path.ends_with(suffix); };
  if (ends(".safetensors")) return save_safetensors(state, path);
  if (ends(".pth") || ends(".pt") || ends(".th")) return save_torch(state, path);
  if (ends(".npz")) return save_npz(state, path);
  fail<ValueError>(
      "save_weights: the name '{}' says no format; let it end in .safetensors, .pth, .pt, .th or "
      ".npz",
      path);
}

ModelFileInfo inspect_model_file(const std::string& path) {
  const io::MappedFile file(path);
  ModelFileInfo info;
  info.bytes = file.size();
  // Until a reader has told zip archives apart, and for files that none accepts.
  info.format = io::recognise(file.bytes()).name;
  try {
    describe(info, file.bytes(), path);
  } catch (const Error& error) {
    info.refusal = error.what();
  }
  return info;
}

}  // namespace facula
