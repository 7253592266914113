// Files that hold a whole StateDict and notice every damage: what training resumes from.
#pragma once

#include <string>

#include <facula/state_dict.h>

namespace facula {

/// Writes `state` to a safetensors file: tensors under their dotted names, everything else as JSON
/// in the metadata, with a checksum (XXH3) of every tensor and one of the rest. Whatever happens,
/// either the old file or the complete new one is there, and it is durable when the call returns.
/// Throws ValueError for undefined tensors and for names that are not UTF-8, and IoError if the
/// file cannot be written.
FACULA_API void save_checkpoint(const StateDict& state, const std::string& path);

/// Reads what save_checkpoint wrote; tensors are on the CPU. Throws IoError, naming the tensor if
/// it is one, for a file that is missing, damaged in any bit, or no checkpoint, and for one of
/// another version of the format.
FACULA_API StateDict load_checkpoint(const std::string& path);

}  // namespace facula
