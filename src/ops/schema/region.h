// Parts of a tensor that one offset and strides describe: what slice, select and diagonal view, and
// their gradients write.
#pragma once

#include <cstdint>
#include <optional>

#include <facula/dims.h>

namespace facula {

struct Region {
  Dims sizes, strides;
  std::int64_t offset = 0;  ///< of the first element, in elements
};

/// Entries start, start + step, ... below end of dimension `dim`; bounds are wrapped and cut like
/// Python's. Throws IndexError for a wrong dimension, ValueError for a step below 1.
Region slice_region(IntList sizes, IntList strides, std::int64_t dim,
                    std::optional<std::int64_t> start, std::optional<std::int64_t> end,
                    std::int64_t step);
/// Entry `index` of dimension `dim`, which disappears. Throws IndexError.
Region select_region(IntList sizes, IntList strides, std::int64_t dim, std::int64_t index);
/// The diagonal of dimensions dim1 and dim2, which move to the end as one. Throws IndexError,
/// ValueError for equal dimensions.
Region diagonal_region(IntList sizes, IntList strides, std::int64_t offset, std::int64_t dim1,
                       std::int64_t dim2);

/// Whether no element is met twice. Strides that go up faster than the elements below them reach
/// are recognised, which those of all view ops do.
bool meets_elements_once(IntList sizes, IntList strides);
/// The elements at offset + i * strides[0] + j * strides[1] + ... among `numel`. Throws ShapeError
/// for what lies outside them, ValueError for elements that are met twice; messages name `op`.
Region strided_region(IntList sizes, IntList strides, std::int64_t offset, std::int64_t numel,
                      const char* op);

}  // namespace facula
