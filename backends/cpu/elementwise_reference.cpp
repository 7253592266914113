#include "backends/cpu/elementwise_reference.h"

#include "backends/cpu/elementwise.h"
#include "core/tensor_impl.h"

namespace facula::cpu {

void run_elementwise_reference(const KernelArgs& args) {
  const Op& op = args.call.op;
  const ElementwiseTraits& traits = *op.def.elementwise;
  const DType dtype = args.in(traits.mask_inputs).dtype();
  // Integers are exact already; only floating point gains from more precision.
  if (dtype != kFloat32) return run_elementwise(args);
  SmallVector<Tensor, 4> wide;
  SmallVector<const Tensor*, 4> pointers;
  for (std::uint32_t i = 0; i < args.call.count; ++i) {
    const Tensor& input = args.in(i);
    wide.push_back(input.dtype() == kFloat32 ? input.to(kFloat64) : input);
  }
  for (const Tensor& input : wide) pointers.push_back(&input);
  const DType result = traits.predicate ? kBool : kFloat64;
  const Tensor out = new_tensor(args.out().sizes(), result, kCPU);
  run_strided_loop(elementwise_loops[static_cast<int>(op.id)][static_cast<int>(kFloat64)],
                   args.call.attributes, out, pointers);
  args.out().copy_(out);
}

}  // namespace facula::cpu
