// What the generated functions need.
#pragma once

#include "base/check.h"
#include "ops/schema/call.h"

namespace facula {

/// A list argument of fixed length; one entry stands for all.
inline Dims expand_list(IntList list, int length, const char* op, const char* argument) {
  if (list.size() == 1) return Dims::filled(length, list[0]);
  check<ValueError>(static_cast<int>(list.size()) == length,
                    "{}: {} has {} entries, expected 1 or {}", op, argument, list.size(), length);
  return list;
}

inline std::uint16_t list_size(const std::vector<Tensor>& list, const char* op) {
  check<ValueError>(list.size() <= 0xffff, "{}: a list of {} tensors is too long; at most 65535",
                    op, list.size());
  return static_cast<std::uint16_t>(list.size());
}

}  // namespace facula
