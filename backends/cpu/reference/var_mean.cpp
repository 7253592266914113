// Variance and mean in double, in two passes.
#include <algorithm>

#include <facula/ops.h>

#include "backends/cpu/registration.h"
#include "ops/attrs/var_mean.h"

namespace facula::cpu {
namespace {

void var_mean(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::var_mean_attrs>();
  const Tensor self = args.in(0).to(kFloat64);
  const Tensor center = mean(self, attrs.dim, true);
  const double count =
      static_cast<double>(self.numel()) / std::max(1.0, static_cast<double>(center.numel()));
  const Tensor squares = sum(square(self - center), attrs.dim, attrs.keepdim);
  args.out(0).copy_(squares / std::max(0.0, count - static_cast<double>(attrs.correction)));
  args.out(1).copy_(mean(self, attrs.dim, attrs.keepdim));
}

}  // namespace

void register_var_mean_reference() { add(OpId::var_mean, {"reference", nullptr, var_mean}); }

}  // namespace facula::cpu
