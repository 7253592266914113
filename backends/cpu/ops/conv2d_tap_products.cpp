// Convolutions on channels_last and the gradients of their inputs, tap by tap: a tap pairs pixels
// of the source with pixels of the result, and adds the product of the source's channels with a
// matrix of its own. Pixels that meet the source through the same taps, and not padding, go
// together: sums of some of them stay in registers while all taps go by.
#include "backends/cpu/convolution.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <facula/ops.h>

#include "backends/cpu/kernels/pointwise.h"
#include "backends/cpu/ops/tap_meeting.h"
#include "backends/cpu/packed_taps.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/weight_taps.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"

namespace facula::cpu {
namespace {

/// Weights of a panel of outputs, of all taps, and elements of a slice's pixels, of the inputs that
/// go with them and of the panel: both stay in the second-level cache.
constexpr std::int64_t kPanelElements = 131072, kSliceElements = 65536;
/// Inputs go together in multiples of this.
constexpr std::int64_t kInputs = 16;
/// Tasks to share out come in multiples of this, where there is so much to do, and the pixels that
/// are worth a slice: fewer would read the weights too often.
constexpr std::int64_t kTasks = 8, kFewestPixels = 64;
/// Below, the library's blocks of channels fill registers better.
constexpr std::int64_t kFewestChannels = 48;
/// Contiguous images are worth a conversion where they are few and meet so many weights, of which
/// threads get shares here; the library's share out lines, and read all weights for each.
constexpr std::int64_t kMostConverted = 8, kFewestWeights = 1 << 16;
/// With more taps most pixels would go through taps of their own.
constexpr std::int64_t kMostTaps = 128;

using base::divide_up;

const PointwiseKernels& kernels() { return pointwise_kernels(); }

/// Positions of the result along one dimension that meet the source through the same taps.
struct Meetings {
  std::vector<std::int64_t> taps;       ///< ascending
  std::vector<std::int64_t> distances;  ///< of what they meet from what the first meets
  std::vector<std::int64_t> positions;
  std::vector<std::int64_t> met;  ///< by the first tap, for each position; without taps 0
};

/// Those of all positions, for the convolution or for the gradient of its input.
std::vector<Meetings> meetings_of_line(const std::vector<TapMeeting>& taps, bool forward,
                                       std::int64_t positions) {
  std::vector<Meetings> all;
  for (std::int64_t position = 0; position < positions; ++position) {
    std::vector<std::int64_t> own, met;
    for (std::int64_t tap = 0; tap < std::ssize(taps); ++tap) {
      const TapMeeting& meeting = taps[static_cast<std::size_t>(tap)];
      const std::int64_t source = !forward                     ? meeting.output(position)
                                  : meeting.contains(position) ? meeting.input(position)
                                                               : -1;
      if (source < 0) continue;
      own.push_back(tap);
      met.push_back(source);
    }
    const std::int64_t first = met.empty() ? 0 : met[0];
    auto same = std::ranges::find(all, own, &Meetings::taps);
    if (same == all.end()) {
      for (std::int64_t& source : met) source -= first;
      same = all.insert(same, {std::move(own), std::move(met), {}, {}});
    }
    same->positions.push_back(position);
    same->met.push_back(first);
  }
  return all;
}

/// Rows of the result, and what their first tap reads: elements of a product.
struct Rows {
  std::vector<std::int64_t> x, out;
};

/// The sums over all taps, from one kind of images to the other.
class TapProducts {
 public:
  /// `taps` with the result's channels as outputs.
  TapProducts(const ConvShape& shape, bool forward, const float* source,
              const Taps<const float>& taps, const float* bias, float* result)
      : s_(shape),
        forward_(forward),
        source_(source),
        weights_(taps, shape.kh * shape.kw, inputs(), outputs()),
        bias_(bias),
        result_(result) {
    std::vector<TapMeeting> rows, columns;
    for (std::int64_t i = 0; i < s_.kh; ++i) {
      rows.emplace_back(i, s_.dilation_h, s_.stride_h, s_.pad_h, s_.h, s_.oh);
    }
    for (std::int64_t j = 0; j < s_.kw; ++j) {
      columns.emplace_back(j, s_.dilation_w, s_.stride_w, s_.pad_w, s_.w, s_.ow);
    }
    rows_ = meetings_of_line(rows, forward, height());
    columns_ = meetings_of_line(columns, forward, width());
    for (const Meetings& row : rows_) {
      for (const Meetings& column : columns_) taps_.push_back(taps_of_class(row, column));
    }
  }

  std::int64_t inputs() const { return forward_ ? s_.c : s_.oc; }
  std::int64_t outputs() const { return forward_ ? s_.oc : s_.c; }
  std::int64_t width() const { return forward_ ? s_.ow : s_.w; }
  std::int64_t lines() const { return s_.n * height(); }

  /// Lines of the result that are computed together: of whole images, if that many, so that as few
  /// kinds of pixels as possible are left over, and in a number of slices that threads share
  /// evenly.
  std::int64_t lines_together() const {
    const std::int64_t columns = kernels().panel_columns(outputs());
    const std::int64_t fitting =
        std::max<std::int64_t>(1, kSliceElements / ((inputs_together() + columns) * width()));
    const std::int64_t slices = divide_up(divide_up(lines(), fitting), kTasks) * kTasks;
    const std::int64_t together =
        std::max(divide_up(lines(), slices), divide_up(kFewestPixels, width()));
    if (together >= height()) return divide_up(together, height()) * height();
    const std::int64_t count = divide_up(lines(), together);
    return divide_up(lines(), count + count % 2);
  }
  /// Parts of the outputs to share out where there are so many slices.
  std::int64_t output_parts(std::int64_t slices) const {
    return std::min(std::ssize(weights_.panels()), divide_up(kTasks, slices));
  }

  /// Computes a part of the outputs for the lines [first, last) of the result.
  void compute(std::int64_t first, std::int64_t last, std::int64_t part, std::int64_t parts) const {
    const std::vector<Rows> classes = rows_of(first, last);
    const std::int64_t chunk = inputs_together(), count = std::ssize(weights_.panels());
    const auto begin = static_cast<std::size_t>(count * part / parts),
               end = static_cast<std::size_t>(count * (part + 1) / parts);
    for (std::int64_t c = 0; c < inputs(); c += chunk) {
      for (const std::int64_t k : weights_.panels().subspan(begin, end - begin)) {
        for (std::size_t i = 0; i < classes.size(); ++i) {
          kernels().multiply_taps({.all_inputs = inputs(),
                                   .first_input = c,
                                   .inputs = std::min(chunk, inputs() - c),
                                   .outputs = outputs(),
                                   .first_output = k,
                                   .x = source_,
                                   .taps = taps_[i],
                                   .bias = bias_,
                                   .accumulate = c > 0,
                                   .out = result_,
                                   .x_rows = classes[i].x,
                                   .out_rows = classes[i].out});
        }
      }
    }
  }

 private:
  std::int64_t height() const { return forward_ ? s_.oh : s_.h; }
  std::int64_t source_height() const { return forward_ ? s_.h : s_.oh; }
  std::int64_t source_width() const { return forward_ ? s_.w : s_.ow; }

  std::vector<PackedTap> taps_of_class(const Meetings& row, const Meetings& column) const {
    std::vector<PackedTap> taps;
    for (std::size_t i = 0; i < row.taps.size(); ++i) {
      for (std::size_t j = 0; j < column.taps.size(); ++j) {
        const std::int64_t pixels = row.distances[i] * source_width() + column.distances[j];
        taps.push_back({weights_.tap(row.taps[i] * s_.kw + column.taps[j]), pixels * inputs()});
      }
    }
    return taps;
  }

  /// The pixels of lines of the result, class by class.
  std::vector<Rows> rows_of(std::int64_t first, std::int64_t last) const {
    std::vector<Rows> classes(taps_.size());
    auto own = classes.begin();
    for (const Meetings& row : rows_) {
      for (const Meetings& column : columns_) {
        add_rows(row, column, first, last, *own++);
      }
    }
    return classes;
  }

  void add_rows(const Meetings& row, const Meetings& column, std::int64_t first, std::int64_t last,
                Rows& rows) const {
    for (std::int64_t image = first / height(); image * height() < last; ++image) {
      for (std::size_t i = 0; i < row.positions.size(); ++i) {
        const std::int64_t line = image * height() + row.positions[i];
        if (line < first || line >= last) continue;
        const std::int64_t source_line = image * source_height() + row.met[i];
        for (std::size_t j = 0; j < column.positions.size(); ++j) {
          rows.x.push_back((source_line * source_width() + column.met[j]) * inputs());
          rows.out.push_back((line * width() + column.positions[j]) * outputs());
        }
      }
    }
  }

  /// Inputs whose weights, of the taps of a class and a panel, stay in the second-level cache.
  std::int64_t inputs_together() const {
    std::size_t most = 1;
    for (const auto& taps : taps_) most = std::max(most, taps.size());
    const std::int64_t fitting =
        kPanelElements / (static_cast<std::int64_t>(most) * kernels().panel_columns(outputs()));
    const std::int64_t chunks = divide_up(inputs(), std::max(kInputs, fitting));
    return divide_up(divide_up(inputs(), chunks), kInputs) * kInputs;
  }

  const ConvShape& s_;
  bool forward_;
  const float* source_;
  PackedTaps weights_;
  const float* bias_;
  float* result_;
  std::vector<Meetings> rows_, columns_;
  std::vector<std::vector<PackedTap>> taps_;  ///< of rows_ by columns_
};

void run(const KernelArgs& args) {
  const ConvShape s = conv_shape_of(args);
  if (run_if_empty(args, s)) return;
  const bool forward = conv_kind(args) == ConvKind::forward;
  const Tensor source = args.in(0).detach().contiguous(kChannelsLast);
  const Tensor weight = with_taps(args.in(1).detach());
  const Tensor bias = args.has(2) ? args.in(2).detach().contiguous() : Tensor();
  const bool direct = args.out().is_contiguous(kChannelsLast);
  const Tensor out =
      direct ? args.out() : new_tensor(args.out().sizes(), kFloat32, kCPU, kChannelsLast);
  const ConvEpilogue epilogue(args, kChannelsLast);

  Taps<const float> taps = taps_of<const float>(weight);
  if (!forward) std::swap(taps.channel_stride, taps.output_stride);
  float* const result = out.impl()->typed<float>();
  const float* start = bias.defined() ? bias.impl()->typed<float>() : nullptr;
  const TapProducts products(s, forward, source.impl()->typed<float>(), taps, start, result);

  const std::int64_t lines = products.lines(), together = products.lines_together();
  const std::int64_t slices = divide_up(lines, together), parts = products.output_parts(slices);
  const auto finish = [&](std::int64_t slice) {
    const std::int64_t pixels = products.width(), first = slice * together * pixels;
    epilogue.finish(result + first * products.outputs(), first,
                    std::min(together * pixels, lines * pixels - first));
  };
  base::parallel_for(slices * parts, [&](std::int64_t task) {
    const std::int64_t slice = task / parts, first = slice * together;
    products.compute(first, std::min(first + together, lines), task % parts, parts);
    if (parts == 1) finish(slice);
  });
  if (parts > 1 && !epilogue.empty()) base::parallel_for(slices, finish);
  if (!direct) args.out().copy_(out);
}

Refusal refuse(const KernelArgs& args) {
  if (args.in(0).dtype() != kFloat32) return "only float32";
  const ConvShape s = conv_shape_of(args);
  if (s.groups != 1) return "groups";
  if (std::min(s.c, s.oc) < kFewestChannels) return "few channels";
  if (s.kh * s.kw > kMostTaps) return "many taps";
  // Pixels of one place are in either layout.
  const bool convert = !args.in(0).is_contiguous(kChannelsLast);
  if (convert && s.n > kMostConverted) return "many contiguous images";
  if (convert && s.c * s.oc * s.kh * s.kw < kFewestWeights) return "contiguous and few weights";
  return refuse_epilogue(args);
}

}  // namespace

void register_conv2d_tap_products() {
  for (OpId op : {OpId::conv2d, OpId::conv2d_fused, OpId::conv2d_backward_input}) {
    add(op, {"tap by tap", refuse, run});
  }
}

}  // namespace facula::cpu
