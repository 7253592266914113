// Doing something in the child of a fork().
#pragma once

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

// ThreadSanitizer refuses threads in the child of a process with threads.
#if !defined(__SANITIZE_THREAD__)
#define FACULA_FORKS_WITH_THREADS
#endif

namespace facula {

/// The children that are tried if one hangs. AddressSanitizer's allocator has locks of its own,
/// which GCC 12's does not take for fork(): where other threads allocate, a child that does nothing
/// but call malloc() hangs now and then.
#if defined(__SANITIZE_ADDRESS__)
constexpr int kTries = 3;
#else
constexpr int kTries = 1;
#endif

/// Whether `holds` does in a child; it is killed if that takes a minute.
inline bool in_a_child(const std::function<bool()>& holds) {
  int status = -1;
  for (int i = 0; i < kTries; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      bool held = false;
      try {
        held = holds();
      } catch (...) {  // NOLINT(bugprone-empty-catch): false
      }
      ::_exit(held ? 0 : 1);
    }
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM) break;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace facula
