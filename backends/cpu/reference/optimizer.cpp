// Optimizer steps, element by element in double.
#include <cmath>

#include "backends/cpu/optimizer_lists.h"
#include "backends/cpu/registration.h"

namespace facula::cpu {
namespace {

/// An element of a float32 or float64 tensor; reads 0 from an absent one.
class Element {
 public:
  Element(std::span<const Tensor* const> list, std::size_t i, std::int64_t place)
      : impl_(list.empty() ? nullptr : list[i]->impl()), place_(place) {}

  operator double() const {
    if (!impl_) return 0;
    return impl_->dtype == kFloat32 ? impl_->typed<float>()[place_]
                                    : impl_->typed<double>()[place_];
  }
  // NOLINTNEXTLINE(misc-unconventional-assign-operator): writes to the tensor, leaves the Element
  void operator=(double value) const {
    if (!impl_) return;
    if (impl_->dtype == kFloat32) {
      impl_->typed<float>()[place_] = static_cast<float>(value);
    } else {
      impl_->typed<double>()[place_] = value;
    }
  }

 private:
  const TensorImpl* impl_;
  std::int64_t place_;
};

void sgd_step(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::sgd_step__attrs>();
  const double lr = step_scalar(args, 3, 0), momentum = step_scalar(args, 3, 1);
  for (std::size_t i = 0; i < args.list(0).size(); ++i) {
    for (std::int64_t k = 0; k < args.list(0)[i]->numel(); ++k) {
      const Element param(args.list(0), i, k), buffer(args.list(2), i, k);
      const double grad = Element(args.list(1), i, k);
      double step = attrs.maximize ? -grad : grad;
      if (attrs.weight_decay != 0) step += attrs.weight_decay * param;
      if (!args.list(2).empty()) {
        const double velocity =
            attrs.first ? step : momentum * buffer + (1 - attrs.dampening) * step;
        buffer = velocity;
        step = attrs.nesterov ? step + momentum * velocity : velocity;
      }
      param = param - lr * step;
    }
  }
}

void adam_step(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::adam_step__attrs>();
  const double lr = step_scalar(args, 5, 0), beta1 = step_scalar(args, 5, 1);
  const double step = step_scalar(args, 5, 2), beta2 = attrs.beta2;
  const double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);
  for (std::size_t i = 0; i < args.list(0).size(); ++i) {
    for (std::int64_t k = 0; k < args.list(0)[i]->numel(); ++k) {
      const Element param(args.list(0), i, k), mean(args.list(2), i, k);
      const Element square(args.list(3), i, k), largest(args.list(4), i, k);
      double value = param;
      double g = Element(args.list(1), i, k);
      if (attrs.maximize) g = -g;
      if (attrs.decoupled) {
        value *= 1 - lr * attrs.weight_decay;
      } else if (attrs.weight_decay != 0) {
        g += attrs.weight_decay * value;
      }
      const double m = beta1 * mean + (1 - beta1) * g;
      double v = beta2 * square + (1 - beta2) * g * g;
      mean = m;
      square = v;
      if (attrs.amsgrad) {
        v = std::fmax(largest, v);
        largest = v;
      }
      param = value - lr / correction1 * m / (std::sqrt(v / correction2) + attrs.eps);
    }
  }
}

}  // namespace

void register_optimizer_reference() {
  add(OpId::sgd_step_, {"reference", nullptr, sgd_step});
  add(OpId::adam_step_, {"reference", nullptr, adam_step});
}

}  // namespace facula::cpu
