#include "backends/cpu/elementwise.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/convert.h"
#include "backends/cpu/streaming.h"
#include "base/check.h"
#include "base/divide_up.h"
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
/// Calling a loop takes as long as some 100 elements. Shorter rows are put together to blocks of at
/// most so many elements.
constexpr std::int64_t kShortRow = 128, kBlockElements = 1024;
constexpr std::int64_t kLargestElement = 8;

/// The iteration space after sorting and merging dimensions; innermost first, strides in bytes.
struct Plan {
  int dims = 0;
  int operands = 0;
  std::int64_t sizes[kMaxDims];
  std::int64_t strides[kMaxDims][kMaxOperands];
  std::int64_t element_sizes[kMaxOperands];
  char* bases[kMaxOperands];
  bool short_rows = false;  // of the innermost dimension, see has_short_rows()
  bool far = false;         // operands are beyond the caches
  Reach reach;

  void add(const TensorImpl& impl, IntList target) {
    const Dims element_strides = broadcast_strides(impl.size_list(), impl.stride_list(), target);
    for (int d = 0; d < static_cast<int>(target.size()); ++d) {
      strides[d][operands] = element_strides[d] * static_cast<std::int64_t>(size_of(impl.dtype));
    }
    element_sizes[operands] = static_cast<std::int64_t>(size_of(impl.dtype));
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
      for (int k = 0; k < operands; ++k) mergeable &= merges(d, last, k);
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

  /// True if for operand k, dimension `outer` only continues `inner`.
  bool merges(int outer, int inner, int k) const {
    return strides[outer][k] == strides[inner][k] * sizes[inner];
  }

  /// True for short rows that follow each other in the output, whose inputs are rows or numbers.
  bool has_short_rows() const {
    if (dims < 2 || !merges(1, 0, 0)) return false;
    // No loop takes a number in the first of three places.
    std::int64_t longest = operands == 4 && strides[0][1] == 0 ? kBlockElements : kShortRow;
    for (int k = 0; k < operands; ++k) {
      const bool number = k > 0 && strides[0][k] == 0;
      if (strides[0][k] != element_sizes[k] && !number) return false;
      // What differs from row to row is written out for each; loops of two inputs take numbers.
      if (operands == 3 && !merges(1, 0, k) && strides[1][k] != 0) longest = kShortRow / 2;
    }
    return sizes[0] <= longest;
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
  plan.short_rows = plan.has_short_rows();
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

/// Writes the elements [begin, begin + count) of an operand in the first two dimensions, and up to
/// kRepeatSlack bytes more.
void expand(const Plan& plan, int k, const char* base, std::int64_t begin, std::int64_t count,
            std::byte* to) {
  const std::int64_t length = plan.sizes[0], size = plan.element_sizes[k];
  const std::int64_t stride = plan.strides[0][k], next = plan.strides[1][k];
  std::int64_t at = begin % length;
  const char* row = base + begin / length * next;
  for (std::int64_t done = 0, n; done < count; done += n) {
    n = std::min(length - at, count - done);
    const std::int64_t rows = at == 0 && stride == 0 ? (count - done) / length : 0;
    if (stride != 0) {
      std::memcpy(to, row + at * stride, static_cast<std::size_t>(n * size));
    } else if (rows > 0) {
      convert_kernels().repeat_rows(row, next, size, rows, length, to);
      n = rows * length;
    } else {
      convert_kernels().repeat_rows(row, 0, size, 1, n, to);
    }
    row += std::max<std::int64_t>(rows, 1) * next;
    to += n * size;
    at = 0;
  }
}

/// Runs elements [begin, begin + count) of the first two dimensions, whose rows are short: inputs
/// that do not follow each other as the output does are written out.
void run_short_rows(const Plan& plan, ElementwiseLoop loop, const void* attrs, char* const* bases,
                    std::int64_t begin, std::int64_t count) {
  alignas(64) std::byte written[kMaxOperands][kBlockElements * kLargestElement + kRepeatSlack];
  char* pointers[kMaxOperands];
  std::int64_t strides[kMaxOperands];
  const std::int64_t block = kBlockElements / plan.sizes[0] * plan.sizes[0];
  for (std::int64_t done = 0; done < count; done += block) {
    const std::int64_t at = begin + done, n = std::min(block, count - done);
    for (int k = 0; k < plan.operands; ++k) {
      strides[k] = plan.strides[0][k];
      pointers[k] = bases[k] + at * strides[k];
      if (plan.merges(1, 0, k)) continue;
      // One row for all looks the same in every block.
      if (done == 0 || plan.strides[1][k] != 0) {
        expand(plan, k, bases[k], at, n, written[k]);
      }
      strides[k] = plan.element_sizes[k];
      pointers[k] = reinterpret_cast<char*>(written[k]);
    }
    loop(attrs, n, pointers, strides, plan.reach);
  }
}

/// Runs the elements [begin, end) of the flattened iteration space.
void run_range(const Plan& plan, ElementwiseLoop loop, const void* attrs, std::int64_t begin,
               std::int64_t end) {
  // One call goes through as many elements of the innermost dimensions as it can.
  const int inner = plan.short_rows ? 2 : std::min(plan.dims, 1);
  std::int64_t length = 1;
  for (int d = 0; d < inner; ++d) length *= plan.sizes[d];
  std::int64_t position[kMaxDims] = {};
  std::int64_t at = begin % length, rest = begin / length;
  for (int d = inner; d < plan.dims; ++d) {
    position[d] = rest % plan.sizes[d];
    rest /= plan.sizes[d];
  }
  static constexpr std::int64_t kNoStrides[kMaxOperands] = {};
  const std::int64_t* strides = plan.dims > 0 ? plan.strides[0] : kNoStrides;
  while (begin < end) {
    char* pointers[kMaxOperands];
    for (int k = 0; k < plan.operands; ++k) {
      pointers[k] = plan.bases[k];
      for (int d = inner; d < plan.dims; ++d) pointers[k] += position[d] * plan.strides[d][k];
    }
    // Calls that differ in one dimension only follow each other quickly.
    const bool more = inner < plan.dims;
    std::int64_t calls = more ? plan.sizes[inner] - position[inner] : 1;
    for (; calls > 0 && begin < end; --calls) {
      const std::int64_t n = std::min(length - at, end - begin);
      if (plan.short_rows) {
        run_short_rows(plan, loop, attrs, pointers, at, n);
      } else if (at == 0) {
        loop(attrs, n, pointers, strides, plan.reach);
      } else {
        char* within[kMaxOperands];
        for (int k = 0; k < plan.operands; ++k) within[k] = pointers[k] + at * strides[k];
        loop(attrs, n, within, strides, plan.reach);
      }
      begin += n;
      at = 0;
      for (int k = 0; more && k < plan.operands; ++k) pointers[k] += plan.strides[inner][k];
    }
    if (!more) break;
    position[inner] = 0;
    for (int d = inner + 1; d < plan.dims && ++position[d] == plan.sizes[d]; ++d) position[d] = 0;
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
  base::parallel_for(base::divide_up(numel, per_slice), [&](std::int64_t slice) {
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
