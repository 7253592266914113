#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim) {
  check<ValueError>(!tensors.empty(), "stack: the list of tensors is empty");
  std::vector<const Tensor*> pointers;
  for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
  common_device("stack", pointers);
  std::vector<Tensor> entries;
  entries.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    check_defined("stack", tensor);
    check<ShapeError>(tensor.sizes() == tensors[0].sizes(),
                      "stack: sizes {} and {} differ; all tensors must have one size",
                      tensors[0].sizes(), tensor.sizes());
    entries.push_back(in_call("stack", {&tensor}, [&] { return unsqueeze(tensor, dim); }));
  }
  return in_call("stack", {&tensors[0]},
                 [&] { return cat(entries, wrap_dim(dim, entries[0].dim(), "stack")); });
}

namespace ops {

CompositeDef define_stack() {
  return {
      .signature = "stack(Tensor[] tensors, int dim=0) -> Tensor",
      .doc =
          "Tensors of one size as the entries of a new dimension.  tensors: K times [*] -> [*, K, "
          "*].",
      .samples =
          [](Samples& s) {
            s.add({std::vector<Tensor>{s.normal({2, 3}), s.normal({2, 3})}});
            s.add({std::vector<Tensor>{s.normal({2, 3}), s.normal({2, 3})}, -1});
            s.add({std::vector<Tensor>{s.normal({}), s.normal({})}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({std::vector<Tensor>{}}, "is empty");
            e.fails({std::vector<Tensor>{e.normal({2}), e.normal({3})}}, "must have one size");
          },
  };
}

}  // namespace ops
}  // namespace facula
