// How much to test under the sanitizers.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <vector>

namespace facula {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = kThreadSanitized;
#endif

/// For tests that take long and have no second thread of their own: under TSan they would tell
/// nothing.
#define FACULA_NOTHING_FOR_TSAN() \
  if (kThreadSanitized) GTEST_SKIP() << "threads are not what this is about"

/// How many of `n` problems to compare with the reference: a tenth under ASan, a hundredth under
/// TSan, which make it ten to a hundred times slower. What they look for, wrong accesses and races,
/// is found where bits are compared too, and that runs every problem.
constexpr int problems(int n) {
  const int of = kThreadSanitized ? 100 : kSanitized ? 10 : 1;
  return (n + of - 1) / of;
}

/// The same for a list: its first problems.
template <class Problem, std::size_t n>
std::span<const Problem> problems(const Problem (&list)[n]) {
  return {list, static_cast<std::size_t>(problems(static_cast<int>(n)))};
}

/// For tests whose problems go one way through threads, and differ in what each does: every fourth
/// under TSan.
template <class Problem, std::size_t n>
std::vector<Problem> some(const Problem (&list)[n]) {
  std::vector<Problem> result;
  for (std::size_t i = 0; i < n; i += kThreadSanitized ? 4 : 1) result.push_back(list[i]);
  return result;
}

/// Numbers of threads whose results must have the same bits. The sanitizers look at one run by
/// several, for which there is nothing to compare: what a thread works on does not depend on how
/// many there are.
inline std::vector<int> thread_counts() {
  if (kSanitized) return {3};
  return {1, 2, 3, 8};
}

}  // namespace facula
