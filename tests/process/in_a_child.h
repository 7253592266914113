// Doing something in the child of a fork().
#pragma once

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

// ThreadSanitizer refuses threads in the child of a process with threads.
#if !defined(__SANITIZE_THREAD__)
#define FACULA_FORKS_WITH_THREADS
#endif

namespace facula {

/// Whether `holds` does in a child; it is killed if that takes a minute.
inline bool in_a_child(const std::function<bool()>& holds) {
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
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace facula
