// Arithmetic on shapes shared by shape rules.
#pragma once

#include <facula/dims.h>

namespace facula {

/// The shape two shapes broadcast to, as in NumPy. Throws ShapeError naming `op`.
Dims broadcast_sizes(IntList a, IntList b, const char* op);
/// Strides with which a tensor of `sizes`/`strides` is read as one of the broadcast `target`.
Dims broadcast_strides(IntList sizes, IntList strides, IntList target);
/// Sorted, wrapped and checked dimensions; an empty list means all. Throws IndexError, ValueError.
Dims normalize_dims(IntList dims, int rank, const char* op);
/// `sizes` without the (normalized) `dims`, or with 1 in their place.
Dims reduced_sizes(IntList sizes, IntList dims, bool keepdim);

}  // namespace facula
