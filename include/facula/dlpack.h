// DLPack: tensors exchanged with other libraries of the process, without copies. Whoever looks into
// a handle includes <dlpack/dlpack.h>; passing one on takes no more than this header.
#pragma once

#include <facula/export.h>
#include <facula/tensor.h>

struct DLManagedTensor;

namespace facula {

/// A handle to the elements of `tensor`, for from_dlpack() or another library's function of that
/// name. Its owner calls its deleter once, from any thread; until then the memory stays. What
/// either side writes the other sees. As with data_ptr(), backward does not notice what is written
/// through a handle, and inside a module's forward() it may reach calls made since the export.
///
/// data points to the first element, or is null if there is none; byte_offset is 0; strides are
/// always given. bool tensors go as uint8, since libraries of before DLPack 0.8 know no bool: only
/// 0 and 1 may be written to them.
///
/// Throws AutogradError for a tensor that requires grad: export detach(). ValueError for an
/// undefined one, DeviceError for one that is not on the CPU.
FACULA_API DLManagedTensor* to_dlpack(const Tensor& tensor);

/// A tensor over the elements of another library's handle, which it takes over: the handle's
/// deleter runs, in whatever thread, when the last tensor over these elements goes. If this
/// throws, the handle is still the caller's. The elements of a bool tensor must be 0 or 1.
///
/// Throws, saying what to do: ValueError for a null handle, data or shape and for elements at an
/// address that is no multiple of their size, DeviceError for another device than the CPU,
/// DTypeError for elements that Facula lacks, ShapeError for more than 8 dimensions, for sizes or
/// strides that are negative or reach beyond the address space, and for elements that share memory
/// otherwise than by a stride of 0, which is as after expand().
FACULA_API Tensor from_dlpack(DLManagedTensor* handle);

}  // namespace facula
