// Checkpoints as one of the formats of weights.
#pragma once

#include <string>

#include <facula/state_dict.h>

#include "io/safetensors/safetensors.h"

namespace facula::io {

/// Whether the file says that save_checkpoint wrote it.
bool is_checkpoint(const SafetensorsReader& file);

/// The tree of load_checkpoint, with undefined tensors. All data is read and compared with its
/// checksums; throws IoError as load_checkpoint does.
StateDict describe_checkpoint(const SafetensorsReader& file, const std::string& path);

/// As load_checkpoint, with tensors that lie in the file, which they keep mapped: reading needs
/// hardly any memory. What is written into them stays in this process.
StateDict map_checkpoint(const std::string& path);

}  // namespace facula::io
