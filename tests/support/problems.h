// How much to test under the sanitizers.
#pragma once

#include <span>

namespace facula {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// How many of `n` problems to compare with the reference: a tenth under the sanitizers, which make
/// it ten to a hundred times slower. What they look for, wrong accesses and races, is found by the
/// tests of equal bits too, and those run every problem.
constexpr int problems(int n) { return kSanitized ? (n + 9) / 10 : n; }

/// The same for a list: its first problems.
template <class Problem, std::size_t n>
std::span<const Problem> problems(const Problem (&list)[n]) {
  return {list, static_cast<std::size_t>(problems(static_cast<int>(n)))};
}

}  // namespace facula
