// Loads the plugin named on the command line, which brings Facula along, into a process that has
// threads already, and has it work, twice.
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <thread>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  int status = 1;
  std::thread([&] {
    for (int i = 0; i < 2; ++i) {
      void* plugin = ::dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
      if (plugin == nullptr) {
        std::fprintf(stderr, "%s\n", ::dlerror());
        return;
      }
      const auto work = reinterpret_cast<double (*)()>(::dlsym(plugin, "work"));
      if (work == nullptr || !std::isfinite(work())) return;
      ::dlclose(plugin);
    }
    status = 0;
  }).join();
  return status;
}
