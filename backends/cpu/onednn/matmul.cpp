// float32 matrix products by oneDNN's matmul primitive. Not by its gemm or inner product, whose
// bits depend on the number of threads.
#include "backends/cpu/matmul.h"

#include <algorithm>
#include <bit>

#include "backends/cpu/onednn/library.h"
#include "backends/cpu/registration.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"

namespace facula::cpu {
namespace {

using dnnl::memory;

/// Multiplications that are worth a slice of their own, about 10 microseconds.
constexpr std::int64_t kSliceWork = 512 << 10;
/// Of all products: every slice packs the other operand again.
constexpr std::int64_t kMostSlices = 16;
/// The least rows and columns of a slice that run at full speed, and what they are multiples of.
constexpr std::int64_t kLeastRows = 32, kRowGranule = 8;
constexpr std::int64_t kLeastColumns = 128, kColumnGranule = 16;

/// A power of two of slices, so that two or four threads get equal shares: with 11 slices, one of
/// two threads would work for 6. By columns only where there are enough for two.
MatmulCut cut_of(const MatmulProblem& p) {
  const bool by_rows = 2 * p.m >= p.n || p.n < 2 * kLeastColumns;
  const std::int64_t extent = by_rows ? p.m : p.n;
  const std::int64_t wanted =
      std::min({p.m * p.n * p.k / kSliceWork, extent / (by_rows ? kLeastRows : kLeastColumns),
                base::divide_up(kMostSlices, p.batch)});
  const auto slices = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(wanted)));
  return {by_rows, extent, slices, by_rows ? kRowGranule : kColumnGranule};
}

onednn::Kernel create(const MatmulProblem& p, std::int64_t m, std::int64_t n) {
  const auto type = memory::data_type::f32;
  const memory::desc left({m, p.k}, type, {p.left.row_stride, p.left.column_stride});
  const memory::desc right({p.k, n}, type, {p.right.row_stride, p.right.column_stride});
  const memory::desc out({m, n}, type, {p.n, 1});
  const memory::desc bias = p.bias ? memory::desc({1, n}, type, {n, 1}) : memory::desc();
  const dnnl::matmul::desc description =
      p.bias ? dnnl::matmul::desc(left, right, bias, out) : dnnl::matmul::desc(left, right, out);
  const dnnl::matmul::primitive_desc primitive(description, onednn::attributes(), onednn::engine());
  std::vector<onednn::Kernel::Operand> operands = {
      {DNNL_ARG_SRC, left}, {DNNL_ARG_WEIGHTS, right}, {DNNL_ARG_DST, out}};
  if (p.bias) operands.push_back({DNNL_ARG_BIAS, bias});
  return {dnnl::matmul(primitive), operands, primitive.scratchpad_desc()};
}

void multiply(const MatmulProblem& p, std::int64_t m, std::int64_t n, const float* left,
              const float* right, const float* bias, float* out) {
  onednn::Key key;
  key << static_cast<int>(OpId::mm) << m << n << p.k << p.n << p.left.row_stride
      << p.left.column_stride << p.right.row_stride << p.right.column_stride << (bias != nullptr);
  onednn::Kernel& kernel =
      onednn::KernelCache::of_this_thread().get(key, [&] { return create(p, m, n); });
  bias ? kernel({left, right, out, bias}) : kernel({left, right, out});
}

Refusal refuse(const KernelArgs& args) {
  const Tensor& a = args.in(0);
  if (a.dtype() != kFloat32) return "only float32";
  if (args.out().numel() == 0 || a.numel() == 0) return "nothing to multiply";
  return onednn::refuse_at_end();
}

void run(const KernelArgs& args) {
  const onednn::InUse in_use;
  if (!in_use.granted()) return onednn::run_at_end(args);
  const MatmulProblem p = matmul_problem(args);
  const MatmulCut cut = cut_of(p);
  base::parallel_for(p.batch * cut.pieces, [&](std::int64_t slice) {
    const std::int64_t b = slice / cut.pieces, begin = slice % cut.pieces * cut.step;
    const std::int64_t length = std::min(cut.step, (cut.by_rows ? p.m : p.n) - begin);
    const std::int64_t i = cut.by_rows ? begin : 0, j = cut.by_rows ? 0 : begin;
    const auto* left = reinterpret_cast<const float*>(p.left.data) + b * p.left.batch_stride;
    const auto* right = reinterpret_cast<const float*>(p.right.data) + b * p.right.batch_stride;
    const auto* bias = reinterpret_cast<const float*>(p.bias);
    const std::int64_t m = cut.by_rows ? length : p.m, n = cut.by_rows ? p.n : length;
    float* out = reinterpret_cast<float*>(p.out) + b * p.m * p.n + i * p.n + j;
    multiply(p, m, n, left + i * p.left.row_stride, right + j * p.right.column_stride,
             bias ? bias + j : nullptr, out);
    p.activation.apply(out, m, n, p.n);
  });
}

}  // namespace

void register_onednn_matmul() {
  for (OpId op : kProducts) add(op, {"oneDNN matmul", refuse, run});
}

}  // namespace facula::cpu
