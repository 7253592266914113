// A registered op.
#pragma once

#include "ops/op_ids.h"
#include "ops/schema/op_def.h"

namespace facula {

/// A primitive op: its definition and what follows from its signature.
struct Op {
  OpId id;
  const char* name;
  OpDef def;
  AttrSchema attrs;
  std::uint8_t tensor_arguments;
  bool has_lists;
  /// Position of saved inputs and outputs among a node's slots, or -1.
  std::int8_t input_slot[16];
  std::int8_t output_slot[8];
};

}  // namespace facula
