// Kernels that move a tensor into or out of a part of another: cat, pad, flip, roll, and the
// gradients of view ops.
#include "backends/cpu/copy.h"
#include "backends/cpu/registration.h"
#include "core/tensor_impl.h"
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

void cat(const KernelArgs& args) {
  const Tensor& out = args.out();
  const int dim = wrap_dim(args.attrs<ops::cat_attrs>().dim, out.dim(), "cat");
  std::int64_t begin = 0;
  for (const Tensor* input : args.list(0)) {
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
  add(OpId::slice_backward, {"copy", nullptr, slice_backward});
  add(OpId::select_backward, {"copy", nullptr, select_backward});
  add(OpId::diagonal_backward, {"copy", nullptr, diagonal_backward});
  add(OpId::cat, {"copy", nullptr, cat});
  add(OpId::constant_pad, {"copy", nullptr, constant_pad});
  add(OpId::flip, {"copy", nullptr, flip});
  add(OpId::roll, {"copy", nullptr, roll});
}

}  // namespace facula::cpu
