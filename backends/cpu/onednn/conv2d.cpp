// float32 convolutions by oneDNN's direct algorithm on channels_last activations.
//
// Weights go into the layout that oneDNN prefers, once per call: they change with every step of a
// training, and reordering them costs a few percent of the convolution. Contiguous activations are
// converted to channels_last and back, by slices, which stay in the caches.
#include "backends/cpu/convolution.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/onednn/library.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "base/divide_up.h"
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
      << s.h << s.w << s.oc << s.oh << s.kh << s.kw << s.stride_h << s.stride_w << s.pad_h
      << s.pad_w << s.dilation_h << s.dilation_w << s.groups;
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
  std::int64_t images;  ///< or pieces, per slice
  std::int64_t count;

  Slices(std::int64_t n, std::int64_t wanted)
      : images(base::divide_up(n, wanted)), count(base::divide_up(n, images)) {}
};

/// Pixels of a batch: whole images, or a part of one.
struct Pixels {
  std::int64_t first, count;
};

/// Images of a batch as the library reads or writes them.
class Batch {
 public:
  /// Planes are turned slice by slice, unless `whole`; what is neither planes nor channels_last,
  /// before.
  explicit Batch(const Tensor& images, bool whole = false)
      : planes_(!whole && are_planes(images)),
        images_(planes_ ? images : images.contiguous(kChannelsLast)),
        channels_(images.size(1)),
        pixels_(images.size(2) * images.size(3)) {}

  bool planes() const { return planes_; }
  /// Elements of pixels if they have to be turned.
  std::int64_t turned(Pixels pixels) const { return planes_ ? pixels.count * channels_ : 0; }
  /// Pixels in channels_last.
  float* at(Pixels pixels) const {
    return images_.impl()->typed<float>() + pixels.first * channels_;
  }

  void read(Pixels pixels, float* to) const {
    for_images(pixels, [&](float* planes, std::int64_t n) {
      gemm_loops<float>().transpose(planes, pixels_, channels_, n, to, channels_);
      to += n * channels_;
    });
  }
  void write(const float* from, Pixels pixels) const {
    for_images(pixels, [&](float* planes, std::int64_t n) {
      gemm_loops<float>().transpose(from, channels_, n, channels_, planes, pixels_);
      from += n * channels_;
    });
  }

 private:
  template <class Body>
  void for_images(Pixels pixels, Body body) const {
    for (auto [first, left] = pixels; left > 0;) {
      const std::int64_t n = std::min(left, pixels_ - first % pixels_);
      float* image = images_.impl()->typed<float>() + first / pixels_ * pixels_ * channels_;
      body(image + first % pixels_, n);
      first += n;
      left -= n;
    }
  }

  bool planes_;
  Tensor images_;
  std::int64_t channels_, pixels_;
};

/// Some images, or some lines of one, as a convolution of their own.
struct Band {
  ConvShape shape;
  std::int64_t image, first_line, first_row;  ///< in the batch, of results, of the input

  Pixels results(const ConvShape& whole) const {
    return {(image * whole.oh + first_line) * whole.ow, shape.n * shape.oh * shape.ow};
  }
  Pixels inputs(const ConvShape& whole) const {
    return {(image * whole.h + first_row) * whole.w, shape.n * shape.h * shape.w};
  }
};

/// Up to `count` images from the first on.
Band images_of(const ConvShape& s, std::int64_t first, std::int64_t count) {
  Band band{s, first, 0, 0};
  band.shape.n = std::min(count, s.n - first);
  return band;
}

/// The lines [first, first + count) of an image's results. Of no rows of the input if all of their
/// windows lie in the padding.
Band lines_of_results(const ConvShape& s, std::int64_t image, std::int64_t first,
                      std::int64_t count) {
  Band band{s, image, first, 0};
  const std::int64_t begin = first * s.stride_h - s.pad_h;
  const std::int64_t end = begin + (count - 1) * s.stride_h + (s.kh - 1) * s.dilation_h + 1;
  band.first_row = std::clamp<std::int64_t>(begin, 0, s.h);
  band.shape.n = 1;
  band.shape.oh = count;
  band.shape.h = std::max<std::int64_t>(0, std::min(end, s.h) - band.first_row);
  band.shape.pad_h = band.first_row - begin;
  return band;
}

/// The rows [first, first + count) of an image's gradient, and the lines of results whose windows
/// meet them: all of the windows do, or end in the padding.
Band rows_of_gradient(const ConvShape& s, std::int64_t image, std::int64_t first,
                      std::int64_t count) {
  Band band{s, image, 0, first};
  const std::int64_t reach = (s.kh - 1) * s.dilation_h, begin = first + s.pad_h;
  band.first_line = std::max<std::int64_t>(0, base::divide_up(begin - reach, s.stride_h));
  const std::int64_t last = std::min(s.oh - 1, (begin + count - 1) / s.stride_h);
  band.shape.n = 1;
  band.shape.h = count;
  band.shape.oh = last + 1 - band.first_line;
  band.shape.pad_h = begin - band.first_line * s.stride_h;
  return band;
}

/// What threads share, forward and for the gradient of the input: some images each or, of few
/// images, lines of them.
class Bands {
 public:
  Bands(const ConvShape& s, bool forward) : s_(s), forward_(forward), lines_(written()) {
    const std::int64_t work = s.n * s.multiplications_per_image();
    images_ = base::divide_up(
        s.n, std::clamp<std::int64_t>(work / kSliceWork, 1, std::min(s.n, kMostSlices)));
    // Each window meets the image, and each row a window.
    const std::int64_t reach = (s.kh - 1) * s.dilation_h;
    const std::int64_t last_row = (s.oh - 1) * s.stride_h - s.pad_h;  // at which windows begin
    if (s.n > kFewImages || s.pad_h > reach || last_row >= s.h) return;
    if (s.stride_h > reach + 1 || last_row + reach + 1 < s.h) return;
    const std::int64_t most = std::min(kMostSlices, work / kBandWork) / s.n;
    const std::int64_t by_lines = std::max<std::int64_t>(1, lines_ / kFewestLines);
    lines_ = base::divide_up(lines_, std::clamp<std::int64_t>(most, 1, by_lines));
    if (per_image() > 1) images_ = 1;
  }

  std::int64_t count() const { return base::divide_up(s_.n, images_) * per_image(); }

  Band operator[](std::int64_t i) const {
    const std::int64_t image = i / per_image() * images_, first = i % per_image() * lines_;
    if (per_image() == 1) return images_of(s_, image, images_);
    const std::int64_t lines = std::min(lines_, written() - first);
    return forward_ ? lines_of_results(s_, image, first, lines)
                    : rows_of_gradient(s_, image, first, lines);
  }

 private:
  /// Fewer images than half of kMostSlices are no even work for threads. Lines of one, and their
  /// multiplications, worth a slice: each reads its neighbours' lines and all weights, too.
  static constexpr std::int64_t kFewImages = 7, kFewestLines = 4, kBandWork = 1 << 20;

  std::int64_t written() const { return forward_ ? s_.oh : s_.h; }
  std::int64_t per_image() const { return base::divide_up(written(), lines_); }

  const ConvShape& s_;
  bool forward_;
  std::int64_t lines_, images_;
};

/// Forward and the gradient of the input: out[images] from in[images] and all weights.
void run_over_images(const KernelArgs& args, const ConvShape& s, ConvKind kind) {
  const bool forward = kind == ConvKind::forward;
  const Batch in(args.in(0));
  const Tensor& weight = args.in(1);
  const Tensor bias = args.has(2) ? args.in(2).contiguous() : Tensor();
  const bool convert = !args.out().is_contiguous() && !args.out().is_contiguous(kChannelsLast);
  const Tensor result =
      convert ? new_tensor(args.out().sizes(), kFloat32, kCPU, kChannelsLast) : args.out();
  const Batch out(result);
  const Bands bands(s, forward);
  const bool with_bias = bias.defined();
  const ConvEpilogue epilogue(args, kChannelsLast);

  const ConvShape first = bands[0].shape;
  const memory::desc inside = kernel_for(kind, first, first.n, with_bias).desc(1);
  const Scratch<std::byte> weights(static_cast<std::int64_t>(inside.get_size()));
  reorder(first, kind, first.n, weight.strides(), inside, true, weight.impl()->data,
          weights.data());
  base::parallel_for(bands.count(), [&](std::int64_t i) {
    const Band band = bands[i];
    const ConvShape& own = band.shape;
    const Pixels from = forward ? band.inputs(s) : band.results(s);
    const Pixels to = forward ? band.results(s) : band.inputs(s);
    Kernel& kernel = kernel_for(kind, own, own.n, with_bias);
    const Scratch<float> turned_in(in.turned(from)), turned_out(out.turned(to));
    if (in.planes()) in.read(from, turned_in.data());
    const float* x = in.planes() ? turned_in.data() : in.at(from);
    float* y = out.planes() ? turned_out.data() : out.at(to);
    const void* own_weights = weights.data();
    // A band of another size may prefer another layout.
    const bool differs = kernel.desc(1) != inside;
    const Scratch<std::byte> other(differs ? static_cast<std::int64_t>(kernel.desc(1).get_size())
                                           : 0);
    if (differs) {
      reorder(own, kind, own.n, weight.strides(), kernel.desc(1), true, weight.impl()->data,
              other.data());
      own_weights = other.data();
    }
    if (forward && with_bias) {
      kernel({x, own_weights, y, bias.impl()->data});
    } else {
      kernel({x, own_weights, y});
    }
    epilogue.finish(y, to.first, to.count);
    if (out.planes()) out.write(y, to);
  });
  if (convert) args.out().copy_(result);
}

/// The batch in pieces for gradients of weights: some images, or some lines of results of one. The
/// library adds up a piece in one go of float32 sums, which lose digits if there are too many.
class Pieces {
 public:
  Pieces(const ConvShape& s, std::int64_t most_images) : s_(s) {
    const std::int64_t pixels = std::max<std::int64_t>(1, s.oh * s.ow);
    images_ = std::clamp<std::int64_t>(kMostPixels / pixels, 1, most_images);
    lines_ = std::clamp<std::int64_t>(kMostPixels / std::max<std::int64_t>(1, s.ow), 1, s.oh);
    bands_ = base::divide_up(s.oh, lines_);
  }

  std::int64_t count() const { return base::divide_up(s_.n, images_) * bands_; }
  bool of_whole_images() const { return bands_ == 1; }

  Band operator[](std::int64_t i) const {
    const std::int64_t image = i / bands_ * images_, first = i % bands_ * lines_;
    if (bands_ == 1) return images_of(s_, image, images_);
    return lines_of_results(s_, image, first, std::min(lines_, s_.oh - first));
  }

 private:
  static constexpr std::int64_t kMostPixels = 1 << 12;

  const ConvShape& s_;
  std::int64_t images_, lines_, bands_;
};

/// Computes a piece of the gradient of weights, in the layout `inside`.
void run_piece(const Band& piece, const ConvShape& s, const Batch& grad, const Batch& x,
               IntList strides, const memory::desc& inside, float* part) {
  constexpr ConvKind kKind = ConvKind::backward_weight;
  const ConvShape& shape = piece.shape;
  if (shape.h == 0) {
    std::memset(part, 0, inside.get_size());
    return;
  }
  const Pixels results = piece.results(s), inputs = piece.inputs(s);
  const Scratch<float> turned_grad(grad.turned(results)), turned_x(x.turned(inputs));
  if (grad.planes()) grad.read(results, turned_grad.data());
  if (x.planes()) x.read(inputs, turned_x.data());
  const void* dy = grad.planes() ? turned_grad.data() : grad.at(results);
  const void* input = x.planes() ? turned_x.data() : x.at(inputs);
  Kernel& kernel = kernel_for(kKind, shape, shape.n, false);
  const memory::desc& own = kernel.desc(1);
  if (own == inside) return kernel({dy, part, input});
  // A piece of another size may prefer another layout.
  const Scratch<std::byte> other(static_cast<std::int64_t>(own.get_size()));
  const Scratch<float> dense(s.oc * (s.c / s.groups) * s.kh * s.kw);
  kernel({dy, other.data(), input});
  reorder(shape, kKind, shape.n, strides, own, false, other.data(), dense.data());
  reorder(s, kKind, s.n, strides, inside, true, dense.data(), part);
}

/// The layout of weights that most pieces prefer.
memory::desc layout_of(const Pieces& pieces) {
  std::int64_t i = 0;
  while (i < pieces.count() && pieces[i].shape.h == 0) ++i;
  ConvShape shape = pieces[i < pieces.count() ? i : 0].shape;
  shape.h = std::max<std::int64_t>(shape.h, 1);
  return kernel_for(ConvKind::backward_weight, shape, shape.n, false).desc(1);
}

/// With AVX2, oneDNN 2.6 gathers the pixels that such a kernel meets, eight channels each, in a
/// scratchpad that has room for as many channels as there are: it writes past the end.
bool overruns_scratchpad(const ConvShape& s) {
  return s.kh * s.kw == 1 && s.stride_h * s.stride_w > 1 && s.pad_h + s.pad_w == 0 &&
         s.c / s.groups < 8;
}

/// The pixels that a 1x1 kernel without padding meets, and `s` as the convolution of these.
Tensor gather_pixels(const Tensor& x, ConvShape& s) {
  const IntList steps = x.strides();
  const Tensor met =
      alias(*x.impl(), {s.n, s.c, s.oh, s.ow},
            {steps[0], steps[1], steps[2] * s.stride_h, steps[3] * s.stride_w}, x.storage_offset());
  s.h = s.oh;
  s.w = s.ow;
  s.stride_h = s.stride_w = 1;
  return met;
}

void run_backward_weight(const KernelArgs& args, ConvShape s) {
  const Tensor met = overruns_scratchpad(s) ? gather_pixels(args.in(1), s) : args.in(1);
  const Tensor& out = args.out();
  const std::int64_t by_memory =
      std::max<std::int64_t>(2, kPartialBytes / std::max<std::int64_t>(1, out.nbytes()));
  const std::int64_t by_work = s.n * s.multiplications_per_image() / kSliceWork;
  const std::int64_t wanted =
      std::clamp<std::int64_t>(std::min(by_memory, by_work), 1, kMostChunks);
  const Pieces pieces(s, base::divide_up(s.n, wanted));
  const Batch grad(args.in(0), !pieces.of_whole_images()), x(met, !pieces.of_whole_images());
  const Slices chunks(pieces.count(), wanted);
  const memory::desc inside = layout_of(pieces);
  const auto bytes = static_cast<std::int64_t>(inside.get_size());
  const std::int64_t elements = bytes / static_cast<std::int64_t>(sizeof(float));
  const Scratch<float> parts(chunks.count * elements);
  base::parallel_for(chunks.count, [&](std::int64_t chunk) {
    const std::int64_t begin = chunk * chunks.images;
    const std::int64_t end = std::min(begin + chunks.images, pieces.count());
    float* part = parts.data() + chunk * elements;
    const Scratch<float> next(end - begin > 1 ? elements : 0);
    for (std::int64_t i = begin; i < end; ++i) {
      float* to = i == begin ? part : next.data();
      run_piece(pieces[i], s, grad, x, out.strides(), inside, to);
      for (std::int64_t k = 0; i > begin && k < elements; ++k) part[k] += to[k];
    }
  });
  sum_parts(parts.data(), chunks.count, elements);
  reorder(s, ConvKind::backward_weight, s.n, out.strides(), inside, false, parts.data(),
          out.impl()->data);
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
