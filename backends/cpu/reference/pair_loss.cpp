// The oracle of losses of pairs: all terms in double, then their sum.
#include <facula/ops.h>

#include "backends/cpu/registration.h"
#include "ops/attrs/pair_loss.h"
#include "ops/schema/loss.h"

namespace facula::cpu {
namespace {

void pair_loss(const KernelArgs& args) {
  const auto& attrs = args.attrs<ops::pair_loss_attrs>();
  const Tensor terms =
      pair_loss_named(attrs.loss)
          .terms(args.in(0).to(kFloat64), args.in(1).to(kFloat64), attrs.parameter);
  args.out().copy_(reduce_loss(terms, attrs.reduction));
}

}  // namespace

void register_pair_loss_reference() { add(OpId::pair_loss, {"reference", nullptr, pair_loss}); }

}  // namespace facula::cpu
