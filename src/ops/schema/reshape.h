// Shared by view and reshape.
#pragma once

#include <optional>

#include "core/tensor_impl.h"

namespace facula {

/// `sizes` with -1 replaced by what is left of `numel`. Throws ShapeError.
Dims resolve_sizes(IntList sizes, std::int64_t numel, const char* op);
/// Strides that make `sizes` a view of the tensor's elements, if there are any.
std::optional<Dims> view_strides(const TensorImpl& impl, IntList sizes);

}  // namespace facula
