// Optimizer steps: all parameters in one parallel pass.
#include "backends/cpu/kernels/optimizer.h"

#include <xmmintrin.h>

#include "backends/cpu/caches.h"
#include "backends/cpu/optimizer_lists.h"
#include "backends/cpu/registration.h"

namespace facula::cpu {
namespace {

/// While it lives, subnormal numbers are 0 for its thread, if `wanted`. Where gradients are 0, as
/// of units that never fire, moments shrink until they are subnormal and stay so, since 0.9 of the
/// least number is rounded to itself: on many processors such elements take eight times as long as
/// others, for the rest of the run. What they would add to parameters is nothing.
class FlushSubnormals {
 public:
  explicit FlushSubnormals(bool wanted = true) : before_(_mm_getcsr()) {
    if (wanted) _mm_setcsr(before_ | kResultsToZero | kInputsAreZero);
  }
  ~FlushSubnormals() { _mm_setcsr(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  static constexpr unsigned kResultsToZero = 0x8000, kInputsAreZero = 0x40;

  const unsigned before_;
};

/// Adam divides by the root of a mean of squares, which is subnormal for gradients below
/// sqrt(2^-126 / (1 - beta2)). Beside eps, to which it is added, that may be 0 if it is less than
/// half an ulp: 2^-24.
bool eps_hides_subnormals(const ops::adam_step__attrs& attrs) {
  return attrs.eps * std::sqrt(1 - attrs.beta2) >= 0x1p-39;
}

bool ask_ahead(const KernelArgs& args) {
  std::int64_t bytes = 0;
  for (const Tensor* param : args.list(0)) bytes += param->nbytes();
  return worth_asking(2 * bytes);  // of gradients, too
}

template <class T>
SgdScalars<T> sgd_scalars(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::sgd_step__attrs>();
  SgdScalars<T> s{};
  s.sign = attrs.maximize ? T(-1) : T(1);
  s.weight_decay = static_cast<T>(attrs.weight_decay);
  s.momentum = static_cast<T>(step_scalar(args, 3, 1));
  s.undamped = static_cast<T>(1 - attrs.dampening);
  s.minus_lr = static_cast<T>(-step_scalar(args, 3, 0));
  s.kind = args.list(2).empty() ? SgdMomentum::none
           : attrs.first        ? SgdMomentum::first
                                : SgdMomentum::later;
  s.nesterov = attrs.nesterov;
  s.ask_ahead = ask_ahead(args);
  return s;
}

void sgd_step(const KernelArgs& args) {
  const auto params = args.list(0), grads = args.list(1), buffers = args.list(2);
  const auto narrow = sgd_scalars<float>(args);
  const auto wide = sgd_scalars<double>(args);
  const OptimizerKernels& kernels = optimizer_kernels();
  for_each_run(args, 3, [&](std::size_t i, std::int64_t first, std::int64_t n) {
    const FlushSubnormals flush;
    if (params[i]->impl()->dtype == kFloat32) {
      kernels.sgd32(narrow, n, at<float>(params, i, first), at<float>(grads, i, first),
                    at<float>(buffers, i, first));
    } else {
      kernels.sgd64(wide, n, at<double>(params, i, first), at<double>(grads, i, first),
                    at<double>(buffers, i, first));
    }
  });
}

template <class T>
AdamScalars<T> adam_scalars(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::adam_step__attrs>();
  const double lr = step_scalar(args, 5, 0), beta1 = step_scalar(args, 5, 1);
  const double step = step_scalar(args, 5, 2);
  AdamScalars<T> s{};
  s.sign = attrs.maximize ? T(-1) : T(1);
  s.weight_decay = attrs.decoupled ? T(0) : static_cast<T>(attrs.weight_decay);
  s.shrink = attrs.decoupled ? static_cast<T>(1 - lr * attrs.weight_decay) : T(1);
  s.beta1 = static_cast<T>(beta1);
  s.one_minus_beta1 = static_cast<T>(1 - beta1);
  s.beta2 = static_cast<T>(attrs.beta2);
  s.one_minus_beta2 = static_cast<T>(1 - attrs.beta2);
  s.sqrt_correction2 = static_cast<T>(std::sqrt(1 - std::pow(attrs.beta2, step)));
  s.eps = static_cast<T>(attrs.eps);
  s.minus_step_size = static_cast<T>(-lr / (1 - std::pow(beta1, step)));
  s.amsgrad = attrs.amsgrad;
  s.ask_ahead = ask_ahead(args);
  return s;
}

void adam_step(const KernelArgs& args) {
  const auto params = args.list(0), grads = args.list(1), means = args.list(2);
  const auto squares = args.list(3), largest = args.list(4);
  const auto narrow = adam_scalars<float>(args);
  const auto wide = adam_scalars<double>(args);
  const bool flushes = eps_hides_subnormals(args.attrs<ops::adam_step__attrs>());
  const OptimizerKernels& kernels = optimizer_kernels();
  for_each_run(args, 5, [&](std::size_t i, std::int64_t first, std::int64_t n) {
    const FlushSubnormals flush(flushes);
    if (params[i]->impl()->dtype == kFloat32) {
      kernels.adam32(narrow, n, at<float>(params, i, first), at<float>(grads, i, first),
                     at<float>(means, i, first), at<float>(squares, i, first),
                     at<float>(largest, i, first));
    } else {
      kernels.adam64(wide, n, at<double>(params, i, first), at<double>(grads, i, first),
                     at<double>(means, i, first), at<double>(squares, i, first),
                     at<double>(largest, i, first));
    }
  });
}

}  // namespace

void register_optimizer() {
  add(OpId::sgd_step_, {"fused", nullptr, sgd_step});
  add(OpId::adam_step_, {"fused", nullptr, adam_step});
}

}  // namespace facula::cpu
