// Files of named tensors in the safetensors format
// (https://github.com/huggingface/safetensors).
#pragma once

#include <string>

#include <facula/state_dict.h>

namespace facula {

/// Writes the tensors of `state` under their dotted names. Whatever happens,
/// either the old file or the complete new one is there; equal states give
/// equal files. Throws ValueError if the state holds anything but tensors, and
/// IoError if the file cannot be written.
FACULA_API void save_safetensors(const StateDict& state, const std::string& path);

/// Reads all tensors of `path`, on the CPU:
///   model.load_state_dict(load_safetensors("model.safetensors"));
/// Throws IoError for a file that is missing or damaged and DTypeError for a
/// dtype that Facula lacks.
FACULA_API StateDict load_safetensors(const std::string& path);

}  // namespace facula
