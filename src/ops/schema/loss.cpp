#include "ops/schema/loss.h"

#include <facula/ops.h>

#include "base/check.h"

namespace facula {

void check_loss(const Tensor& input, const Tensor& target, std::string_view reduction,
                const char* op) {
  check<ValueError>(input.defined() && target.defined(), "{}: an input is an undefined tensor", op);
  check<ShapeError>(input.sizes() == target.sizes(),
                    "{}: target of size {} for an input of size {}; make them equal", op,
                    target.sizes(), input.sizes());
  check<ValueError>(reduction == "mean" || reduction == "sum" || reduction == "none",
                    "{}: unknown reduction \"{}\"; use mean, sum or none", op, reduction);
  check_not_empty(input, target, reduction, op);
}

void check_not_empty(const Tensor& input, const Tensor& target, std::string_view reduction,
                     const char* op) {
  check<ShapeError>(reduction != "mean" || target.numel() > 0,
                    "{}: an input of size {} with a target of size {} has no mean; leave out empty "
                    "batches, or use reduction sum",
                    op, input.sizes(), target.sizes());
}

Tensor reduce_loss(const Tensor& losses, std::string_view reduction) {
  if (reduction == "none") return losses;
  return reduction == "sum" ? sum(losses) : mean(losses);
}

}  // namespace facula
