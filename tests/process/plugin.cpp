// A shared library that uses Facula, for programs that do not know it.
#include "tests/process/everyday_work.h"

extern "C" double work() { return facula::everyday_work(); }
