// Files of weights in any of the formats that Facula knows, recognised by what is in them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <facula/safetensors.h>
#include <facula/state_dict.h>

namespace facula {

/// Reads the weights in `path`, on the CPU: safetensors, Facula's checkpoints, files of torch.save
/// (zip or legacy), TorchScript archives, npz and npy (one tensor, named "tensor"). The name of the
/// file plays no part, and nothing in it is executed.
///   model.load_state_dict(load_weights("resnet18.pth"));
/// Throws IoError for a file that is missing, damaged or of another format, naming what it looks
/// like and what to do, and DTypeError for a dtype that Facula lacks.
FACULA_API StateDict load_weights(const std::string& path);

/// Writes tensors in the format that the name says: .safetensors; .pth, .pt or .th; .npz. Throws
/// ValueError for another name or a state that holds anything but tensors, and IoError if the file
/// cannot be written; whatever happens, either the old or the complete new one is there.
FACULA_API void save_weights(const StateDict& state, const std::string& path);

/// What a file is, found without loading its data; checkpoints are read once for their checksums.
struct ModelFileInfo {
  /// "safetensors", "Facula checkpoint", "torch zip", "torch legacy", "TorchScript", "npz", "npy",
  /// or what else it looks like: "ONNX", "HDF5", ..., "unknown".
  std::string format;
  std::uint64_t bytes = 0;
  /// Dtypes are named as the format does, those that Facula lacks too.
  std::vector<TensorInfo> tensors;
  /// Names of tensors that share memory, for each such piece of memory.
  std::vector<std::vector<std::string>> shared;
  /// Values that are no tensors, as text: metadata, or leaves beside the tensors.
  std::vector<std::pair<std::string, std::string>> metadata;
  /// Why load_weights refuses the file; empty if nothing but the data itself could be wrong.
  std::string refusal;
};

/// Throws IoError only for a file that cannot be read at all.
FACULA_API ModelFileInfo inspect_model_file(const std::string& path);

}  // namespace facula
