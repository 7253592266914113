#include "backends/cpu/elementwise.h"

#include <algorithm>

#include "backends/cpu/streaming.h"
#include "base/check.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/schema/shape.h"

namespace facula::cpu {
namespace {

constexpr int kMaxOperands = 5;
/// Elements per slice: large enough to hide the cost of claiming one, small enough to balance.
constexpr std::int64_t kSliceElements = 16384;
/// The same for operands beyond the caches: memory likes longer runs.
constexpr std::int64_t kFarSliceElements = 131072;

/// The iteration space after sorting and merging dimensions; innermost first, strides in bytes.
struct Plan {
  int dims = 0;
  int operands = 0;
  std::int64_t sizes[kMaxDims];
  std::int64_t strides[kMaxDims][kMaxOperands];
  char* bases[kMaxOperands];
  bool far = false;  // operands are beyond the caches
  Reach reach;

  void add(const TensorImpl& impl, IntList target) {
    const Dims element_strides = broadcast_strides(impl.size_list(), impl.stride_list(), target);
    for (int d = 0; d < static_cast<int>(target.size()); ++d) {
      strides[d][operands] = element_strides[d] * static_cast<std::int64_t>(size_of(impl.dtype));
    }
    bases[operands++] = reinterpret_cast<char*>(impl.data);
  }

  /// Orders dimensions by the output's stride, so that the innermost loop runs over neighbours.
  void sort() {
    auto before = [&](int a, int b) {
      for (int k = 0; k < operands; ++k) {
        if (strides[a][k] != strides[b][k]) return strides[a][k] < strides[b][k];
      }
      return false;
    };
    for (int i = 1; i < dims; ++i) {
      for (int j = i; j > 0 && before(j, j - 1); --j) swap_dims(j, j - 1);
    }
  }

  void merge() {
    int last = 0;
    for (int d = 1; d < dims; ++d) {
      bool mergeable = true;
      for (int k = 0; k < operands; ++k) {
        mergeable &= strides[d][k] == strides[last][k] * sizes[last];
      }
      if (mergeable) {
        sizes[last] *= sizes[d];
      } else {
        ++last;
        sizes[last] = sizes[d];
        std::copy_n(strides[d], operands, strides[last]);
      }
    }
    if (dims > 0) dims = last + 1;
  }

  void swap_dims(int a, int b) {
    std::swap(sizes[a], sizes[b]);
    std::swap_ranges(strides[a], strides[a] + operands, strides[b]);
  }
};

Plan make_plan(const Tensor& out, std::span<const Tensor* const> inputs) {
  Plan plan;
  const IntList target = out.sizes();
  plan.add(*out.impl(), target);
  for (const Tensor* input : inputs) plan.add(*input->impl(), target);
  for (int d = 0; d < static_cast<int>(target.size()); ++d) {
    if (target[d] == 1) continue;
    plan.sizes[plan.dims] = target[d];
    if (plan.dims != d) std::copy_n(plan.strides[d], plan.operands, plan.strides[plan.dims]);
    ++plan.dims;
  }
  plan.sort();
  plan.merge();
  return plan;
}

/// True if the result of an op that reads and writes so many bytes had better not displace others
/// from the caches. All pieces of its rows must begin at cache lines then.
bool writes_past_caches(const Plan& plan, const Tensor& out, std::int64_t bytes) {
  static_assert(kFarSliceElements % kLineBytes == 0);
  if (!worth_streaming(out.nbytes(), bytes) || plan.dims == 0) return false;
  const auto size = static_cast<std::int64_t>(out.element_size());
  if (plan.strides[0][0] != size) return false;
  if (!begins_line(plan.bases[0])) return false;
  if (plan.dims > 1 && plan.sizes[0] * size % kLineBytes != 0) return false;
  for (int d = 1; d < plan.dims; ++d) {
    if (plan.strides[d][0] % kLineBytes != 0) return false;
  }
  return std::find(plan.bases + 1, plan.bases + plan.operands, plan.bases[0]) ==
         plan.bases + plan.operands;
}

void set_reach(Plan& plan, const Tensor& out, std::span<const Tensor* const> inputs) {
  std::int64_t bytes = out.nbytes();
  for (const Tensor* input : inputs) bytes += input->nbytes();
  plan.far = bytes > most_near_bytes();
  plan.reach = {.ask = worth_asking(bytes), .stream = writes_past_caches(plan, out, bytes)};
}

/// Runs the elements [begin, end) of the flattened iteration space.
void run_range(const Plan& plan, ElementwiseLoop loop, const void* attrs, std::int64_t begin,
               std::int64_t end) {
  std::int64_t position[kMaxDims] = {};
  std::int64_t rest = begin;
  for (int d = 0; d < plan.dims; ++d) {
    position[d] = rest % plan.sizes[d];
    rest /= plan.sizes[d];
  }
  static constexpr std::int64_t kNoStrides[kMaxOperands] = {};
  const std::int64_t* strides = plan.dims > 0 ? plan.strides[0] : kNoStrides;
  while (begin < end) {
    char* pointers[kMaxOperands];
    for (int k = 0; k < plan.operands; ++k) {
      pointers[k] = plan.bases[k];
      for (int d = 0; d < plan.dims; ++d) pointers[k] += position[d] * plan.strides[d][k];
    }
    const std::int64_t row = plan.dims > 0 ? plan.sizes[0] - position[0] : 1;
    const std::int64_t n = std::min(row, end - begin);
    loop(attrs, n, pointers, strides, plan.reach);
    begin += n;
    if (plan.dims == 0) break;
    position[0] += n;
    for (int d = 0; d + 1 < plan.dims && position[d] == plan.sizes[d]; ++d) {
      position[d] = 0;
      ++position[d + 1];
    }
  }
  if (plan.reach.stream) finish_streaming();
}

}  // namespace

void run_strided_loop(ElementwiseLoop loop, const void* attrs, const Tensor& out,
                      std::span<const Tensor* const> inputs) {
  const std::int64_t numel = out.numel();
  if (numel == 0) return;
  Plan plan = make_plan(out, inputs);
  set_reach(plan, out, inputs);
  const std::int64_t per_slice = plan.far ? kFarSliceElements : kSliceElements;
  base::parallel_for((numel + per_slice - 1) / per_slice, [&](std::int64_t slice) {
    const std::int64_t begin = slice * per_slice;
    run_range(plan, loop, attrs, begin, std::min(begin + per_slice, numel));
  });
}

void run_elementwise(const KernelArgs& args) {
  const Op& op = args.call.op;
  const DType dtype = args.in(op.def.elementwise->mask_inputs).dtype();
  const ElementwiseLoop loop = elementwise_loops[static_cast<int>(op.id)][static_cast<int>(dtype)];
  check<DTypeError>(loop != nullptr, "{}: dtype {} is not supported; convert with to(kFloat32)",
                    op.name, name_of(dtype));
  run_strided_loop(loop, args.call.attributes, args.out(), {args.call.inputs, args.call.count});
}

}  // namespace facula::cpu
