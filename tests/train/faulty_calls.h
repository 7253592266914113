// System calls that fail, stop half-way or end the process when a test wants it.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <type_traits>
#include <utility>

#include "io/file.h"

namespace facula::train {

/// What happens to one call.
enum class Fault { none, error, short_write, end_before, end_after };

/// Replaces io::system_calls while it lives. There can be one at a time.
class FaultyCalls {
  static FaultyCalls*& current() {
    static FaultyCalls* current = nullptr;
    return current;
  }

  template <class Call>
  static std::invoke_result_t<Call> around(const char* name, Call&& call) {
    return around(name, call, call);
  }
  template <class Call, class ShortCall>
  static std::invoke_result_t<Call> around(const char* name, Call&& call, ShortCall&& short_call) {
    FaultyCalls& self = *current();
    const Fault fault = self.decide_(++self.calls_, name);
    if (fault == Fault::end_before) self.end_();
    if (fault == Fault::error) {
      errno = self.error_;
      return -1;
    }
    const auto result = fault == Fault::short_write ? short_call() : call();
    if (fault == Fault::end_after) self.end_();
    return result;
  }

 public:
  /// `decide` gets the call's number, from 1, and its name; it may be called by several threads.
  /// Fault::error sets errno to `error`; the ends are by `end`.
  FaultyCalls(
      std::function<Fault(int number, const char* call)> decide, int error,
      void (*end)() = [] { ::_exit(0); })
      : usual_(io::system_calls), decide_(std::move(decide)), error_(error), end_(end) {
    current() = this;
    io::system_calls = {
        [](int folder, const char* name, int flags, mode_t mode) {
          return around("open",
                        [&] { return current()->usual_.openat(folder, name, flags, mode); });
        },
        [](int file, const void* bytes, size_t count) {
          return around(
              "write", [&] { return current()->usual_.write(file, bytes, count); },
              [&] { return current()->usual_.write(file, bytes, (count + 1) / 2); });
        },
        [](int file) { return around("fsync", [&] { return current()->usual_.fsync(file); }); },
        [](int old_folder, const char* old_name, int new_folder, const char* new_name) {
          return around("rename", [&] {
            return current()->usual_.renameat(old_folder, old_name, new_folder, new_name);
          });
        },
        [](int folder, const char* name, int flags) {
          return around("unlink", [&] { return current()->usual_.unlinkat(folder, name, flags); });
        },
        [](int folder, const char* name, mode_t mode) {
          return around("mkdir", [&] { return current()->usual_.mkdirat(folder, name, mode); });
        },
        usual_.flock};
  }
  ~FaultyCalls() {
    io::system_calls = usual_;
    current() = nullptr;
  }
  FaultyCalls(const FaultyCalls&) = delete;
  FaultyCalls& operator=(const FaultyCalls&) = delete;

  int calls() const { return calls_; }

 private:
  const io::SystemCalls usual_;
  const std::function<Fault(int, const char*)> decide_;
  const int error_;
  void (*const end_)();
  std::atomic<int> calls_ = 0;
};

}  // namespace facula::train
