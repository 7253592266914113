// Matrix products as plain loops: in double for floating dtypes, exact modulo 2^64 for integers.
#include "backends/cpu/matmul.h"
#include "backends/cpu/registration.h"
#include "base/thread_pool.h"
#include "runtime/dispatch.h"
#include "runtime/mode.h"

namespace facula::cpu {
namespace {

/// Inputs of [.., m, k] and [.., k, n], dense; `transposed`: the second is [n, k].
template <class T>
void multiply(const Tensor& a, const Tensor& b, const T* bias, bool transposed, std::int64_t batch,
              std::int64_t m, std::int64_t n, std::int64_t k, T* out) {
  const T* left = a.impl()->typed<T>();
  const T* right = b.impl()->typed<T>();
  base::parallel_for(batch * m, [&](std::int64_t row) {
    const T* x = left + row * k;
    const T* y = right + (transposed ? 0 : row / m * k * n);
    for (std::int64_t j = 0; j < n; ++j) {
      T total = bias ? bias[j] : T(0);
      for (std::int64_t i = 0; i < k; ++i) {
        total = static_cast<T>(total + x[i] * (transposed ? y[j * k + i] : y[i * n + j]));
      }
      out[row * n + j] = total;
    }
  });
}

/// By the reference of its op, in place.
void activate(const Activation& activation, Tensor values) {
  if (!activation.op()) return;
  const runtime::ModeGuard reference(runtime::kReference);
  const Tensor* inputs[] = {&values};
  runtime::run_into(Call{op(*activation.op()), inputs, 1, activation.attrs()}, {&values, 1});
}

template <class T>
void run_as(const KernelArgs& args) {
  const bool linear = is_linear(args.call.op.id);
  const Tensor a = args.in(0).to(dtype_of<T>).contiguous();
  const Tensor b = args.in(1).to(dtype_of<T>).contiguous();
  const Tensor bias = args.has(2) ? args.in(2).to(dtype_of<T>).contiguous() : Tensor();
  const std::int64_t k = a.sizes()[a.dim() - 1];
  const std::int64_t n = linear ? b.sizes()[0] : b.sizes()[b.dim() - 1];
  const bool batched = args.call.op.id == OpId::bmm;
  const std::int64_t batch = batched ? a.sizes()[0] : 1;
  std::int64_t m = 1;
  for (int d = batched ? 1 : 0; d + 1 < a.dim(); ++d) m *= a.sizes()[d];
  const Tensor out = new_tensor(args.out().sizes(), dtype_of<T>, kCPU);
  multiply<T>(a, b, bias.defined() ? bias.impl()->typed<T>() : nullptr, linear, batch, m, n, k,
              out.impl()->typed<T>());
  activate(Activation(args), out);
  args.out().copy_(out);
}

void run(const KernelArgs& args) {
  is_floating_point(args.in(0).dtype()) ? run_as<double>(args) : run_as<std::int64_t>(args);
}

}  // namespace

void register_matmul_reference() {
  for (OpId op : kProducts) add(op, {"reference", nullptr, run});
}

}  // namespace facula::cpu
