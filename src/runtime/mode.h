// The calling thread's modes: one word, so that the dispatcher asks one question.
#pragma once

#include <cstdint>

namespace facula::runtime {

enum Mode : std::uint32_t {
  kNoGrad = 1u << 0,         ///< nothing is recorded
  kInference = 1u << 1,      ///< results can never be recorded; implies kNoGrad
  kAutocast = 1u << 2,       ///< calls go to hooks.autocast, to cast inputs; nothing sets it yet
  kTracing = 1u << 3,        ///< calls go to hooks.trace; nothing sets it yet
  kProfiling = 1u << 4,      ///< calls are told to hooks.profile_begin, _end; nothing sets it yet
  kAnomaly = 1u << 5,        ///< nodes remember where they were made; gradients are checked
  kDeterministic = 1u << 6,  ///< for nondeterministic implementations, once there are any
  kReference = 1u << 7,      ///< lists' last implementation runs, in double
  kVerbose = 1u << 8,        ///< each call is logged
  kCheckpoint = 1u << 9,     ///< a checkpointed segment runs: what is saved goes to it
  kFirstCall = 1u << 10,     ///< the thread has not asked yet whether FACULA_VERBOSE is set
};

/// Modes the dispatcher's fast path can ignore.
inline constexpr std::uint32_t kFastModes = kNoGrad | kDeterministic | kCheckpoint;

extern thread_local constinit std::uint32_t tl_mode [[gnu::tls_model("initial-exec")]];

/// Gives the mode bits in `which` the values they have in `saved`. Only those a guard has changed:
/// guards of other modes may end in any order.
inline void restore_modes(std::uint32_t which, std::uint32_t saved) {
  tl_mode = (tl_mode & ~which) | (saved & which);
}

/// Sets and clears mode bits for a scope.
class ModeGuard {
 public:
  explicit ModeGuard(std::uint32_t set, std::uint32_t clear = 0)
      : which_(set | clear), saved_(tl_mode) {
    tl_mode = (tl_mode | set) & ~clear;
  }
  ~ModeGuard() { restore_modes(which_, saved_); }
  ModeGuard(const ModeGuard&) = delete;
  ModeGuard& operator=(const ModeGuard&) = delete;

 private:
  std::uint32_t which_, saved_;
};

}  // namespace facula::runtime
