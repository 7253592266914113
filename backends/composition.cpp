// The composition root of the library: the one place that knows all backends and all hooks.
#include "autograd/record.h"
#include "backends/registration.h"
#include "runtime/dispatch.h"
#include "runtime/op_registry.h"

namespace facula {

void register_backends() {
  runtime::hooks.record = autograd::record;
  runtime::hooks.rebase = autograd::rebase;
  runtime::hooks.before_write = autograd::before_write;
  runtime::hooks.observed = autograd::observed;
  runtime::hooks.made_by = autograd::made_by;
  runtime::hooks.history_name = autograd::history_name;
  cpu::register_backend();
}

}  // namespace facula
