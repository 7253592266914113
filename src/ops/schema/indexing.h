// What ops with an index tensor have in common.
#pragma once

#include "ops/schema/op_def.h"

namespace facula {

/// Checks an index tensor's dtype (int64 or int32). Its values are checked where they are used.
void check_index(const Tensor& index, const char* op);
/// As above for a 1-d index of index_select and index_add.
void check_index_list(const Tensor& index, const char* op);
/// Shape rule of gather and scatter: index has as many dimensions as self and reaches beyond it
/// only in dimension `dim`. Returns the wrapped dimension.
int check_index_grid(const Tensor& self, std::int64_t dim, const Tensor& index, const char* op);
/// What gradients are added to by scatter_add and index_add, which write all of it anyway: a single
/// zero, repeated.
Tensor zeros_to_add_to(const Tensor& like, DType dtype);

}  // namespace facula
