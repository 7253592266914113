// 1x1 convolutions of few pixels, or of images in planes, as products with the weights where they
// lie: others pack them first. So go convolutions of planes whose windows lie side by side, as the
// first one of a vision transformer does.
#include <facula/ops.h>

#include "backends/cpu/convolution.h"
#include "backends/cpu/registration.h"
#include "core/tensor_impl.h"
#include "runtime/dispatch.h"

namespace facula::cpu {
namespace {

/// Computes a product of matrices into `out`.
void multiply(OpId id, std::initializer_list<const Tensor*> inputs, Tensor out) {
  const auto count = static_cast<std::uint32_t>(inputs.size());
  runtime::run_into(Call{op(id), inputs.begin(), count, nullptr}, {&out, 1});
}

/// [pixels, channels], in place where one stride leads from pixel to pixel.
Tensor pixels_of(const Tensor& images) {
  return reshape(images.detach().permute({0, 2, 3, 1}), {-1, images.size(1)});
}

/// [images, channels, pixels] of contiguous images.
Tensor planes_of(const Tensor& images) {
  return images.detach().view({images.size(0), images.size(1), -1});
}

/// [outputs, inputs], or elements of a window
Tensor matrix_of(const Tensor& weight) { return reshape(weight.detach(), {weight.size(0), -1}); }

/// [images, elements of a window, windows] of images whose windows lie side by side.
Tensor patches_of(const Tensor& images, const ConvShape& s) {
  const Tensor covered = images.detach().narrow(2, 0, s.oh * s.kh).narrow(3, 0, s.ow * s.kw);
  const Tensor windows = covered.view({s.n, s.c, s.oh, s.kh, s.ow, s.kw});
  return reshape(windows.permute({0, 1, 3, 5, 2, 4}), {s.n, s.c * s.kh * s.kw, s.oh * s.ow});
}

/// The weights times the planes of each image.
void run_by_planes(const KernelArgs& args, const Tensor& planes, bool forward) {
  const Tensor weights = matrix_of(args.in(1)), left = forward ? weights : weights.t();
  const Tensor repeated = left.expand({planes.size(0), left.size(0), left.size(1)});
  multiply(OpId::bmm, {&repeated, &planes}, planes_of(args.out()));
  if (args.has(2)) args.out().add_(args.in(2).detach().view({-1, 1, 1}));
}

void run_by_pixels(const KernelArgs& args, bool forward) {
  const bool direct = args.out().is_contiguous(kChannelsLast);
  const Tensor out =
      direct ? args.out() : new_tensor(args.out().sizes(), kFloat32, kCPU, kChannelsLast);
  const Tensor pixels = pixels_of(args.in(0)).contiguous(), weights = matrix_of(args.in(1));
  if (forward) {
    const Tensor bias = args.has(2) ? args.in(2).detach() : Tensor();
    multiply(OpId::linear, {&pixels, &weights, &bias}, pixels_of(out));
    ConvEpilogue(args, kChannelsLast).finish(out.impl()->typed<float>(), 0, pixels.size(0));
  } else {
    multiply(OpId::mm, {&pixels, &weights}, pixels_of(out));
  }
  if (!direct) args.out().copy_(out);
}

void run_weight_gradient(const KernelArgs& args) {
  const Tensor gradients = pixels_of(args.in(0)).t(), pixels = pixels_of(args.in(1));
  multiply(OpId::mm, {&gradients, &pixels}, matrix_of(args.out()));
}

Refusal refuse(const KernelArgs& args) {
  if (by_matrix(args, conv_shape_of(args)) == ByMatrix::no) return "better otherwise";
  return refuse_epilogue(args);
}

void run(const KernelArgs& args) {
  const ConvShape s = conv_shape_of(args);
  if (run_if_empty(args, s)) return;
  const ConvKind kind = conv_kind(args);
  if (kind == ConvKind::backward_weight) return run_weight_gradient(args);
  const bool forward = kind == ConvKind::forward;
  switch (by_matrix(args, s)) {
    case ByMatrix::planes: return run_by_planes(args, planes_of(args.in(0)), forward);
    case ByMatrix::patches: return run_by_planes(args, patches_of(args.in(0), s), forward);
    default: return run_by_pixels(args, forward);
  }
}

}  // namespace

void register_conv2d_matrix() {
  for (OpId op : kConvolutions) {
    add(op, {"matrix product", refuse, run});
  }
}

}  // namespace facula::cpu
