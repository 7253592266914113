// Asking for memory before its turn, where processors do not foresee enough. Included by kernel
// translation units only.
#pragma once

namespace facula::cpu::FACULA_ISA {
namespace {

/// Asks for the line kBytes after `from`, into the second-level cache: it waits for more lines at a
/// time than the first.
template <int kBytes = 0>
[[gnu::always_inline]] inline void ask_second_level(const void* from) {
  __builtin_prefetch(static_cast<const char*>(from) + kBytes, 0, 2);
}

/// Asks for what comes a little after a line, into the first level.
[[gnu::always_inline]] inline void ask_first_level(const void* line) {
  __builtin_prefetch(static_cast<const char*>(line) + 2048);
}

/// Asks for what comes after a line twice: early into the second-level cache, later into the first.
[[gnu::always_inline]] inline void ask_both_levels(const void* line) {
  ask_second_level<8192>(line);
  ask_first_level(line);
}

}  // namespace
}  // namespace facula::cpu::FACULA_ISA
