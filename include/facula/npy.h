// NumPy's files: .npy holds one array, .npz is a zip archive of them.
#pragma once

#include <string>

#include <facula/state_dict.h>

namespace facula {

/// Reads an array as numpy.save writes it: of any byte order, row- or column-major. The tensor is
/// contiguous, on the CPU, and has memory of its own. Throws IoError for a file that is missing or
/// damaged, or holds anything but numbers (arrays of objects are pickles and could run code), and
/// DTypeError for a dtype that Facula lacks, such as uint16.
FACULA_API Tensor load_npy(const std::string& path);
/// Reads all arrays of a file that numpy.savez or numpy.savez_compressed wrote, under their names.
/// Also throws IoError if they would take more than four times the size of the file and 64 MiB.
FACULA_API StateDict load_npz(const std::string& path);

/// Writes files that numpy.load reads. Whatever happens, either the old or the complete new file is
/// there. Throw ValueError for a state that holds anything but tensors, DTypeError for bfloat16,
/// which NumPy lacks, and IoError if the file cannot be written.
FACULA_API void save_npy(const Tensor& tensor, const std::string& path);
FACULA_API void save_npz(const StateDict& state, const std::string& path);

}  // namespace facula
