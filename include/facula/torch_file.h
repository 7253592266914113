// Files that torch.save and torch.jit.save wrote, read without Python and without executing
// anything that stands in them; and files that torch.load reads.
#pragma once

#include <string>

#include <facula/state_dict.h>

namespace facula {

/// Reads what torch.save wrote (zip, or the legacy format before PyTorch 1.6) or the parameters and
/// buffers of a TorchScript archive, on the CPU:
///   model.load_state_dict(load_torch("resnet18.pth"));
/// Dictionaries and the attributes of objects are StateDicts, lists, tuples and sets are StateDicts
/// with keys "0", "1", ..., other keys become text (numbers with a fraction, NumPy's, bytes and
/// tuples "key" and their place), NumPy's numbers are numbers, None is kept; a file that holds one
/// tensor gives {"tensor": ...}. Tensors that share memory in the file share it here.
///
/// Nothing is executed: a file that asks for anything beyond rebuilding tensors and containers is
/// refused with an IoError naming what it asks for. Also throws IoError for a file that is missing,
/// damaged, or would take more memory than its size justifies, and DTypeError, naming the tensor,
/// for a dtype that Facula lacks.
FACULA_API StateDict load_torch(const std::string& path);

/// Writes a zip file that torch.load(path, weights_only=True) reads: a dictionary of the tensors
/// under the dotted names of `state`. Tensors that share memory share it in the file. Whatever
/// happens, either the old file or the complete new one is there; equal states give equal files.
/// Throws ValueError if the state holds anything but tensors, and IoError if the file cannot be
/// written.
FACULA_API void save_torch(const StateDict& state, const std::string& path);

}  // namespace facula
