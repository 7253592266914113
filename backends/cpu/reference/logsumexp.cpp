// The logarithm of a sum of powers as its formula stands, in double.
#include <facula/ops.h>

#include <limits>

#include "backends/cpu/registration.h"
#include "ops/attrs/logsumexp.h"

namespace facula::cpu {
namespace {

void logsumexp(const KernelArgs& args) {
  if (args.in(0).numel() == 0) {
    args.out().fill_(-std::numeric_limits<double>::infinity());
    return;
  }
  const auto& attrs = args.attrs<ops::logsumexp_attrs>();
  const Tensor self = args.in(0).to(kFloat64);
  const Tensor greatest = amax(self, attrs.dim, true);
  const Tensor shift = where(isinf(greatest), 0, greatest);
  const Tensor total = log(sum(exp(self - shift), attrs.dim, attrs.keepdim));
  args.out().copy_(total + reshape(shift, total.sizes()));
}

}  // namespace

void register_logsumexp_reference() { add(OpId::logsumexp, {"reference", nullptr, logsumexp}); }

}  // namespace facula::cpu
