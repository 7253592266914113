// The number of threads that Facula computes with.
#pragma once

#include <facula/export.h>

namespace facula {

/// Threads that share the work of one operation, the calling thread included. The default is the
/// number of CPUs this process may use (affinity mask and cgroup quota), or FACULA_NUM_THREADS.
/// Results do not depend on it: work is cut into slices by the problem, never by the thread count.
FACULA_API int get_num_threads();

/// Sets the number of threads (1 to 1024), which may exceed the number of CPUs. Waits for a running
/// operation of another thread. Throws ValueError outside the range, and inside a parallel region.
FACULA_API void set_num_threads(int threads);

}  // namespace facula
