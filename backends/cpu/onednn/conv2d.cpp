// float32 convolutions by oneDNN's direct algorithm on channels_last activations.
//
// Weights go into the layout that oneDNN prefers, once per call: they change with every step of a
// training, and reordering them costs a few percent of the convolution. Contiguous activations are
// converted to channels_last and back.
#include "backends/cpu/convolution.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/onednn/library.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "base/thread_pool.h"

namespace facula::cpu {
namespace {

using dnnl::memory;
using onednn::Kernel;
using onednn::Key;

constexpr auto kType = memory::data_type::f32;
constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
/// Multiplications worth a slice of their own.
constexpr std::int64_t kSliceWork = 4 << 20;
constexpr std::int64_t kMostSlices = 16;
/// Partial weight gradients are kept below this many bytes together where the weights are large.
constexpr std::int64_t kPartialBytes = 8 << 20;
constexpr std::int64_t kMostChunks = 8;

memory::dims weight_dims(const ConvShape& s) {
  if (s.groups == 1) return {s.oc, s.c, s.kh, s.kw};
  return {s.groups, s.oc / s.groups, s.c / s.groups, s.kh, s.kw};
}

/// Weights as the tensor holds them.
memory::desc plain_weights(const ConvShape& s, IntList strides) {
  if (s.groups == 1) {
    return {weight_dims(s), kType, {strides[0], strides[1], strides[2], strides[3]}};
  }
  return {weight_dims(s),
          kType,
          {strides[0] * (s.oc / s.groups), strides[0], strides[1], strides[2], strides[3]}};
}

struct Descriptors {
  memory::desc input, weights, output, bias;
  memory::dims stride, dilation, before, after;

  Descriptors(const ConvShape& s, std::int64_t images, bool with_bias)
      : input({images, s.c, s.h, s.w}, kType, memory::format_tag::nhwc),
        weights(weight_dims(s), kType, memory::format_tag::any),
        output({images, s.oc, s.oh, s.ow}, kType, memory::format_tag::nhwc),
        stride{s.stride_h, s.stride_w},
        dilation{s.dilation_h - 1, s.dilation_w - 1},
        before{s.pad_h, s.pad_w} {
    if (with_bias) bias = memory::desc({s.oc}, kType, memory::format_tag::a);
    // What the last window does not reach is padding of negative size.
    after = {(s.oh - 1) * s.stride_h + s.dilation_h * (s.kh - 1) + 1 - s.h - s.pad_h,
             (s.ow - 1) * s.stride_w + s.dilation_w * (s.kw - 1) + 1 - s.w - s.pad_w};
  }

  dnnl::convolution_forward::primitive_desc forward() const {
    using Forward = dnnl::convolution_forward;
    const auto kind = dnnl::prop_kind::forward_training;
    const Forward::desc description = bias ? Forward::desc(kind, kAlgorithm, input, weights, bias,
                                                           output, stride, dilation, before, after)
                                           : Forward::desc(kind, kAlgorithm, input, weights, output,
                                                           stride, dilation, before, after);
    return {description, onednn::attributes(), onednn::engine()};
  }
};

/// Operands in the order: what varies with the images, weights, then what else there is.
Kernel create(ConvKind kind, const ConvShape& s, std::int64_t images, bool with_bias) {
  const Descriptors d(s, images, with_bias);
  const auto forward = d.forward();
  if (kind == ConvKind::forward) {
    std::vector<Kernel::Operand> operands = {{DNNL_ARG_SRC, d.input},
                                             {DNNL_ARG_WEIGHTS, forward.weights_desc()},
                                             {DNNL_ARG_DST, d.output}};
    if (with_bias) operands.push_back({DNNL_ARG_BIAS, d.bias});
    return {dnnl::convolution_forward(forward), operands, forward.scratchpad_desc()};
  }
  if (kind == ConvKind::backward_input) {
    using Backward = dnnl::convolution_backward_data;
    const Backward::primitive_desc backward(Backward::desc(kAlgorithm, d.input, d.weights, d.output,
                                                           d.stride, d.dilation, d.before, d.after),
                                            onednn::attributes(), onednn::engine(), forward);
    return {Backward(backward),
            {{DNNL_ARG_DIFF_DST, d.output},
             {DNNL_ARG_WEIGHTS, backward.weights_desc()},
             {DNNL_ARG_DIFF_SRC, d.input}},
            backward.scratchpad_desc()};
  }
  using Backward = dnnl::convolution_backward_weights;
  const Backward::primitive_desc backward(Backward::desc(kAlgorithm, d.input, d.weights, d.output,
                                                         d.stride, d.dilation, d.before, d.after),
                                          onednn::attributes(), onednn::engine(), forward);
  return {Backward(backward),
          {{DNNL_ARG_DIFF_DST, d.output},
           {DNNL_ARG_DIFF_WEIGHTS, backward.diff_weights_desc()},
           {DNNL_ARG_SRC, d.input}},
          backward.scratchpad_desc()};
}

Key key_of(ConvKind kind, const ConvShape& s, std::int64_t images, bool with_bias) {
  Key key;
  key << static_cast<int>(OpId::conv2d) << static_cast<int>(kind) << images << with_bias << s.c
      << s.h << s.w << s.oc << s.kh << s.kw << s.stride_h << s.stride_w << s.pad_h << s.pad_w
      << s.dilation_h << s.dilation_w << s.groups;
  return key;
}

Kernel& kernel_for(ConvKind kind, const ConvShape& s, std::int64_t images, bool with_bias) {
  return onednn::KernelCache::of_this_thread().get(
      key_of(kind, s, images, with_bias), [&] { return create(kind, s, images, with_bias); });
}

/// Copies weights from one layout to the other.
void reorder(const ConvShape& s, ConvKind kind, std::int64_t images, IntList strides,
             const memory::desc& inside, bool to_library, const void* from, void* to) {
  Key key = key_of(kind, s, images, to_library);
  key.words[0] = -1;
  for (std::int64_t stride : strides) key << stride;
  Kernel& kernel = onednn::KernelCache::of_this_thread().get(key, [&]() -> Kernel {
    const memory::desc outside = plain_weights(s, strides);
    const memory::desc& source = to_library ? outside : inside;
    const memory::desc& target = to_library ? inside : outside;
    const dnnl::reorder::primitive_desc primitive(onednn::engine(), source, onednn::engine(),
                                                  target, onednn::attributes());
    return {dnnl::reorder(primitive),
            {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}},
            primitive.scratchpad_desc()};
  });
  kernel({from, to});
}

/// A run of equal slices of the batch and a smaller last one.
struct Slices {
  std::int64_t images;  ///< per slice
  std::int64_t count;

  Slices(std::int64_t n, std::int64_t wanted)
      : images((n + wanted - 1) / wanted), count((n + images - 1) / images) {}
};

/// Forward and the gradient of the input: out[images] from in[images] and all weights.
void run_over_images(const KernelArgs& args, const ConvShape& s, ConvKind kind) {
  const bool forward = kind == ConvKind::forward;
  const Tensor in = args.in(0).contiguous(kChannelsLast);
  const Tensor& weight = args.in(1);
  const Tensor bias = args.has(2) ? args.in(2).contiguous() : Tensor();
  const bool convert = !args.out().is_contiguous(kChannelsLast);
  const Tensor out =
      convert ? new_tensor(args.out().sizes(), kFloat32, kCPU, kChannelsLast) : args.out();
  const Slices slices(s.n,
                      std::clamp<std::int64_t>(s.n * s.multiplications_per_image() / kSliceWork, 1,
                                               std::min(s.n, kMostSlices)));
  const bool with_bias = bias.defined();
  const ConvEpilogue epilogue(args, kChannelsLast);

  const memory::desc inside = kernel_for(kind, s, slices.images, with_bias).desc(1);
  const Scratch<std::byte> weights(static_cast<std::int64_t>(inside.get_size()));
  reorder(s, kind, slices.images, weight.strides(), inside, true, weight.impl()->data,
          weights.data());
  const std::int64_t in_step = in.numel() / s.n, out_step = out.numel() / s.n;
  base::parallel_for(slices.count, [&](std::int64_t slice) {
    const std::int64_t first = slice * slices.images;
    const std::int64_t images = std::min(slices.images, s.n - first);
    Kernel& kernel = kernel_for(kind, s, images, with_bias);
    const void* x = in.impl()->typed<float>() + first * in_step;
    float* y = out.impl()->typed<float>() + first * out_step;
    const void* own_weights = weights.data();
    // A last slice of another size may prefer another layout.
    const bool differs = images != slices.images && kernel.desc(1) != inside;
    const Scratch<std::byte> other(differs ? static_cast<std::int64_t>(kernel.desc(1).get_size())
                                           : 0);
    if (differs) {
      reorder(s, kind, images, weight.strides(), kernel.desc(1), true, weight.impl()->data,
              other.data());
      own_weights = other.data();
    }
    if (forward && with_bias) {
      kernel({x, own_weights, y, bias.impl()->data});
    } else {
      kernel({x, own_weights, y});
    }
    epilogue.finish(y, first * s.oh * s.ow, images * s.oh * s.ow);
  });
  if (convert) args.out().copy_(out);
}

void run_backward_weight(const KernelArgs& args, const ConvShape& s) {
  constexpr ConvKind kKind = ConvKind::backward_weight;
  const Tensor grad = args.in(0).contiguous(kChannelsLast);
  const Tensor x = args.in(1).contiguous(kChannelsLast);
  const Tensor& out = args.out();
  const std::int64_t by_memory =
      std::max<std::int64_t>(2, kPartialBytes / std::max<std::int64_t>(1, out.nbytes()));
  const std::int64_t by_work = s.n * s.multiplications_per_image() / kSliceWork;
  const Slices chunks(
      s.n, std::clamp<std::int64_t>(std::min(by_memory, by_work), 1, std::min(s.n, kMostChunks)));
  const memory::desc inside = kernel_for(kKind, s, chunks.images, false).desc(1);
  const auto bytes = static_cast<std::int64_t>(inside.get_size());
  const Scratch<std::byte> parts(chunks.count * bytes);
  base::parallel_for(chunks.count, [&](std::int64_t chunk) {
    const std::int64_t first = chunk * chunks.images;
    const std::int64_t images = std::min(chunks.images, s.n - first);
    Kernel& kernel = kernel_for(kKind, s, images, false);
    const void* dy = grad.impl()->typed<float>() + first * (s.oc * s.oh * s.ow);
    const void* input = x.impl()->typed<float>() + first * (s.c * s.h * s.w);
    std::byte* part = parts.data() + chunk * bytes;
    if (kernel.desc(1) == inside) return kernel({dy, part, input});
    const memory::desc& own = kernel.desc(1);
    const Scratch<std::byte> other(static_cast<std::int64_t>(own.get_size()));
    const Scratch<float> dense(out.numel());
    kernel({dy, other.data(), input});
    reorder(s, kKind, images, out.strides(), own, false, other.data(), dense.data());
    reorder(s, kKind, chunks.images, out.strides(), inside, true, dense.data(), part);
  });
  sum_parts(reinterpret_cast<float*>(parts.data()), chunks.count,
            bytes / static_cast<std::int64_t>(sizeof(float)));
  reorder(s, kKind, chunks.images, out.strides(), inside, false, parts.data(), out.impl()->data);
}

/// The library goes through padding step by step, and finds places with 32 bits.
constexpr std::int64_t kLongestStep = 1 << 15;

Refusal refuse(const KernelArgs& args) {
  if (args.in(0).dtype() != kFloat32) return "only float32";
  const ConvShape s = conv_shape_of(args);
  const std::int64_t longest =
      std::max({s.stride_h, s.stride_w, s.pad_h, s.pad_w, s.dilation_h, s.dilation_w});
  if (longest > kLongestStep) return "strides, padding or dilation beyond 32768";
  if (const Refusal ended = onednn::refuse_at_end()) return ended;
  return refuse_epilogue(args);
}

void run(const KernelArgs& args) {
  const onednn::InUse in_use;
  if (!in_use.granted()) return onednn::run_at_end(args);
  const ConvShape shape = conv_shape_of(args);
  if (run_if_empty(args, shape)) return;
  const ConvKind kind = conv_kind(args);
  kind == ConvKind::backward_weight ? run_backward_weight(args, shape)
                                    : run_over_images(args, shape, kind);
}

}  // namespace

void register_onednn_conv2d() {
  for (OpId op : kConvolutions) {
    add(op, {"oneDNN direct convolution", refuse, run});
  }
}

}  // namespace facula::cpu
