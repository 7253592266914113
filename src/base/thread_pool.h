// The one thread pool of the library.
#pragma once

#include <cstdint>

#include <facula/export.h>
#include <facula/parallel.h>

#include "base/function_ref.h"

namespace facula::base {

/// Calls body(0) ... body(slices - 1), each exactly once, on the calling thread and the workers.
///
/// Threads begin with equal shares of consecutive slices and then take what others have left, so
/// the order and the thread of a slice vary. Choose `slices` from the problem alone, never from
/// get_num_threads(), and combine partial results in a fixed order: then the result is the same
/// bits for every number of threads.
///
/// Runs inline in the caller when nested in another parallel_for, when another thread is using the
/// pool, or with a single slice or thread. The first exception thrown by a body is rethrown here
/// after all threads have left; slices not yet begun are then abandoned.
FACULA_API void parallel_for(int64_t slices, FunctionRef<void(int64_t)> body);

/// Makes the calling thread one that works beside the pool: parallel_for runs inline on it, since
/// it must never take the pool away from those that compute, and signals are left to the user's
/// threads. `name` is what debuggers show, at most 15 characters.
FACULA_API void become_background_thread(const char* name);

/// True inside a body that parallel_for is running on the pool.
FACULA_API bool in_parallel_region() noexcept;

/// Sets the function that every worker runs once when it starts (null for none). A backend uses it
/// to set up thread-local state of the library it wraps.
FACULA_API void set_thread_init(void (*init)());

}  // namespace facula::base
