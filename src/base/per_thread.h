// What each thread keeps for itself, on the heap.
#pragma once

#include <pthread.h>

#include <utility>

namespace facula::base {

/// The calling thread's T, default-constructed when first asked for.
///
/// It outlives everything that may still compute: destructors of the thread's thread_local objects,
/// because the system destroys the values of keys after those, and in the main thread also
/// functions of atexit() and destructors of static objects. It lies on the heap, because libraries
/// that are loaded at run time share some 1.5 kB of thread-local storage.
template <class T>
T& per_thread() {
  static thread_local constinit T* instance = nullptr;
  if (instance == nullptr) [[unlikely]] {
    struct Key {
      pthread_key_t key{};
      bool made =
          pthread_key_create(&key, [](void*) { delete std::exchange(instance, nullptr); }) == 0;
    };
    static const Key key;
    instance = new T;
    if (key.made) pthread_setspecific(key.key, instance);  // else it outlives its thread
  }
  return *instance;
}

}  // namespace facula::base
