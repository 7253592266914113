// Kernels that move a tensor into or out of a part of another: cat, pad, flip, roll, and the
// gradients of view ops.
#include <algorithm>
#include <cstring>
#include <span>

#include "backends/cpu/copy.h"
#include "backends/cpu/kernels/interleave.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/streaming.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/attrs/as_strided_copy.h"
#include "ops/attrs/as_strided_scatter.h"
#include "ops/attrs/cat.h"
#include "ops/attrs/constant_pad.h"
#include "ops/attrs/diagonal_backward.h"
#include "ops/attrs/flip.h"
#include "ops/attrs/roll.h"
#include "ops/attrs/select_backward.h"
#include "ops/attrs/slice_backward.h"
#include "ops/schema/region.h"
#include "ops/schema/shape.h"
#include "runtime/dispatch.h"

namespace facula::cpu {
namespace {

Tensor part(const Tensor& whole, const Region& region) {
  return alias(*whole.impl(), region.sizes, region.strides, whole.storage_offset() + region.offset);
}

Region slice_of(const Tensor& whole, std::int64_t dim, std::int64_t start, std::int64_t end) {
  return slice_region(whole.sizes(), whole.strides(), dim, start, end, 1);
}

void write_into_zeros(const KernelArgs& args, const Region& region) {
  zero_elements(args.out());
  copy_elements(args.in(0), part(args.out(), region));
}

void slice_backward(const KernelArgs& args) {
  const auto& a = args.attrs<ops::slice_backward_attrs>();
  write_into_zeros(
      args, slice_region(args.out().sizes(), args.out().strides(), a.dim, a.start, a.end, a.step));
}

void select_backward(const KernelArgs& args) {
  const auto& a = args.attrs<ops::select_backward_attrs>();
  write_into_zeros(args, select_region(args.out().sizes(), args.out().strides(), a.dim, a.index));
}

void diagonal_backward(const KernelArgs& args) {
  const auto& a = args.attrs<ops::diagonal_backward_attrs>();
  write_into_zeros(
      args, diagonal_region(args.out().sizes(), args.out().strides(), a.offset, a.dim1, a.dim2));
}

/// The elements of a contiguous tensor that the attributes name.
template <class Attrs>
Tensor strided_part(const Tensor& whole, const Attrs& a) {
  return part(whole, {a.size, a.stride, a.storage_offset});
}

void as_strided_copy(const KernelArgs& args) {
  const Tensor whole = args.in(0).detach().contiguous();
  copy_elements(strided_part(whole, args.attrs<ops::as_strided_copy_attrs>()), args.out());
}

void as_strided_scatter(const KernelArgs& args) {
  copy_elements(args.in(0), args.out());
  copy_elements(args.in(1), strided_part(args.out(), args.attrs<ops::as_strided_scatter_attrs>()));
}

/// Two to four tensors whose entries alternate in `out`, as those of columns do that become a
/// table.
bool alternate(std::span<const Tensor* const> inputs, const Tensor& out, int dim) {
  const auto count = static_cast<std::int64_t>(inputs.size());
  return count >= kFewestInterleaved && count <= kMostInterleaved && dim == out.dim() - 1 &&
         out.is_contiguous() && std::ranges::all_of(inputs, [&](const Tensor* input) {
           return input->dim() == out.dim() && input->sizes()[dim] == 1 &&
                  input->dtype() == out.dtype() && input->is_contiguous();
         });
}

/// Entries [first, end) of all inputs; past the caches in short bursts.
template <class E>
void interleave(std::span<const Tensor* const> inputs, std::int64_t first, std::int64_t end, E* out,
                bool past_caches) {
  constexpr std::int64_t kBlock = 1024 / sizeof(E), kBurst = 256 / sizeof(E);
  const auto count = static_cast<std::int64_t>(inputs.size());
  const std::int64_t block = past_caches ? kBurst : kBlock;
  E planes[kMostInterleaved * kBlock], burst[kMostInterleaved * kBurst];
  for (; first < end; first += block) {
    const std::int64_t length = std::min(block, end - first);
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(planes + i * kBlock, inputs[i]->impl()->typed<E>() + first,
                  static_cast<std::size_t>(length) * sizeof(E));
    }
    E* to = out + first * count;
    interleave_loops<E>().join(planes, kBlock, count, length, past_caches ? burst : to);
    if (past_caches) stream(to, burst, length * count * static_cast<std::int64_t>(sizeof(E)));
  }
  if (past_caches) finish_streaming();
}

template <class E>
void interleave(std::span<const Tensor* const> inputs, const Tensor& out) {
  constexpr std::int64_t kSlice = 16384;
  const std::int64_t n = out.numel() / static_cast<std::int64_t>(inputs.size());
  const bool past_caches = worth_streaming(out.nbytes());
  base::parallel_for(base::divide_up(n, kSlice), [&](std::int64_t slice) {
    interleave(inputs, slice * kSlice, std::min((slice + 1) * kSlice, n), out.impl()->typed<E>(),
               past_caches);
  });
}

void cat(const KernelArgs& args) {
  const Tensor& out = args.out();
  const int dim = wrap_dim(args.attrs<ops::cat_attrs>().dim, out.dim(), "cat");
  const std::span<const Tensor* const> inputs = args.list(0);
  if (alternate(inputs, out, dim)) {
    switch (out.element_size()) {
      case 1: return interleave<std::uint8_t>(inputs, out);
      case 2: return interleave<std::uint16_t>(inputs, out);
      case 4: return interleave<std::uint32_t>(inputs, out);
      default: return interleave<std::uint64_t>(inputs, out);
    }
  }
  std::int64_t begin = 0;
  for (const Tensor* input : inputs) {
    if (input->dim() != out.dim()) continue;  // an empty 1-d tensor, which counts for nothing
    const std::int64_t end = begin + input->sizes()[dim];
    copy_elements(*input, part(out, slice_of(out, dim, begin, end)));
    begin = end;
  }
}

void constant_pad(const KernelArgs& args) {
  const auto& a = args.attrs<ops::constant_pad_attrs>();
  const Tensor& out = args.out();
  // What remains of the input after negative padding, and where it goes.
  Tensor source = args.in(0), target = out;
  for (int i = 0; i < a.pad.size(); ++i) {
    const int dim = out.dim() - 1 - i / 2;
    const std::int64_t width = a.pad[i];
    if (width == 0) continue;
    Tensor& larger = width > 0 ? target : source;
    const std::int64_t size = larger.sizes()[dim], rest = size - std::abs(width);
    const bool front = i % 2 == 0;
    larger = part(larger, slice_of(larger, dim, front ? size - rest : 0, front ? size : rest));
  }
  if (target.numel() < out.numel()) {
    if (a.value == 0) {
      zero_elements(out);
    } else {
      copy_elements(runtime::wrapped_number(a.value, out), out);
    }
  }
  copy_elements(source, target);
}

void flip(const KernelArgs& args) {
  const Tensor& self = args.in(0);
  if (self.numel() == 0) return;
  Region reversed{self.sizes(), self.strides(), 0};
  for (std::int64_t dim : args.attrs<ops::flip_attrs>().dims) {
    const int d = wrap_dim(dim, self.dim(), "flip");
    if (self.dim() == 0) break;
    reversed.offset += (reversed.sizes[d] - 1) * reversed.strides[d];
    reversed.strides[d] = -reversed.strides[d];
  }
  copy_elements(part(self, reversed), args.out());
}

/// Copies source into target, rolled by shifts[i] >= 0 places along dimension i and those after it:
/// both parts of a dimension at once in the others.
void roll_parts(const Tensor& source, const Tensor& target, const Dims& shifts, int i) {
  while (i < shifts.size() && shifts[i] == 0) ++i;
  if (i == shifts.size()) return copy_elements(source, target);
  const std::int64_t size = source.sizes()[i], shift = shifts[i];
  roll_parts(part(source, slice_of(source, i, 0, size - shift)),
             part(target, slice_of(target, i, shift, size)), shifts, i + 1);
  roll_parts(part(source, slice_of(source, i, size - shift, size)),
             part(target, slice_of(target, i, 0, shift)), shifts, i + 1);
}

void roll(const KernelArgs& args) {
  const auto& [shifts, dims] = args.attrs<ops::roll_attrs>();
  if (args.out().numel() == 0) return;
  Tensor source = args.in(0).detach(), target = args.out().detach();
  if (dims.empty()) source = source.contiguous().view({-1}), target = target.view({-1});
  Dims places;
  for (int d = 0; d < source.dim(); ++d) places.push_back(0);
  for (int i = 0; i < shifts.size(); ++i) {
    const int d = dims.empty() ? 0 : wrap_dim(dims[i], source.dim(), "roll");
    const std::int64_t size = source.sizes()[d];
    places[d] = (places[d] + shifts[i] % size + size) % size;
  }
  roll_parts(source, target, places, 0);
}

}  // namespace

void register_regions() {
  add(OpId::as_strided_copy, {"copy", nullptr, as_strided_copy});
  add(OpId::as_strided_scatter, {"copy", nullptr, as_strided_scatter});
  add(OpId::slice_backward, {"copy", nullptr, slice_backward});
  add(OpId::select_backward, {"copy", nullptr, select_backward});
  add(OpId::diagonal_backward, {"copy", nullptr, diagonal_backward});
  add(OpId::cat, {"copy", nullptr, cat});
  add(OpId::constant_pad, {"copy", nullptr, constant_pad});
  add(OpId::flip, {"copy", nullptr, flip});
  add(OpId::roll, {"copy", nullptr, roll});
}

}  // namespace facula::cpu
