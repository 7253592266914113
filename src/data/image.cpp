#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include <facula/data/image.h>

#include "base/check.h"
#include "base/per_thread.h"
#include "core/tensor_impl.h"
#include "data/color.h"
#include "data/pixel_kernels.h"
#include "data/pixel_source.h"
#include "data/resample.h"

namespace facula::data {
namespace {

/// The memory that grows to what an image needs and serves the next one.
std::uint8_t* scratch(std::vector<std::uint8_t>& buffer, std::int64_t bytes) {
  if (static_cast<std::int64_t>(buffer.size()) < bytes) {
    buffer.resize(static_cast<std::size_t>(bytes));
  }
  return buffer.data();
}

/// Kept between images: what photographs of 33 megapixels take, because fresh memory costs almost
/// half as much as decoding. Larger ones are rare, and threads would keep theirs until they end.
constexpr std::size_t kMostKept = std::size_t{96} << 20;

/// Frees a buffer at the end of its use, where it has become too large to be kept.
struct FreedIfLarge {
  std::vector<std::uint8_t>& buffer;
  ~FreedIfLarge() {
    if (buffer.capacity() > kMostKept) std::vector<std::uint8_t>().swap(buffer);
  }
};

/// The index inside [0, size) that stands for position `i` beyond it; -1 for the fill value.
std::int64_t inside(std::int64_t i, std::int64_t size, PaddingMode mode) {
  if (i >= 0 && i < size) return i;
  switch (mode) {
    case PaddingMode::constant: return -1;
    case PaddingMode::edge: return std::clamp<std::int64_t>(i, 0, size - 1);
    case PaddingMode::reflect: return i < 0 ? -i : 2 * size - 2 - i;
    case PaddingMode::symmetric: return i < 0 ? -i - 1 : 2 * size - 1 - i;
  }
  return -1;
}

const PixelSource& checked(const std::shared_ptr<const PixelSource>& source) {
  check<ValueError>(source != nullptr, "Image: the source of pixels is null");
  return *source;
}

/// Scale and shift of every element of a row, for rows of up to kElements.
class FloatPattern {
 public:
  /// A multiple of 16 vectors' elements and of 1 and 3 channels.
  static constexpr std::int64_t kElements = 960;

  const float* scale() const { return scale_; }
  const float* shift() const { return shift_; }

  void set(const double* scale, const double* shift, std::int64_t channels) {
    bool same = channels == channels_;
    for (std::int64_t c = 0; c < channels && same; ++c) {
      same = scale_[c] == static_cast<float>(scale[c]) && shift_[c] == static_cast<float>(shift[c]);
    }
    if (same) return;
    channels_ = channels;
    for (std::int64_t i = 0; i < kElements; ++i) {
      scale_[i] = static_cast<float>(scale[i % channels]);
      shift_[i] = static_cast<float>(shift[i % channels]);
    }
  }

 private:
  std::int64_t channels_ = 0;
  float scale_[kElements], shift_[kElements];
};

}  // namespace

/// What is composed before it is converted: whole small images, and little of the first-level
/// cache.
constexpr std::int64_t kStripBytes = 4096;

/// Does what an image has noted.
struct Image::Access {
  const Image& image;
  const PixelKernels& kernels = pixel_kernels();

  /// What each thread needs to work on images; no memory is asked for once they have grown, unless
  /// images are larger than kMostKept.
  struct Scratch {
    std::vector<std::uint8_t> decoded, strip;
    FloatPattern pattern;
  };
  static Scratch& buffers() { return base::per_thread<Scratch>(); }

  /// Pixels in memory: rows of width * channels bytes, one after the other.
  struct PixelView {
    const std::uint8_t* pixels;
    std::int64_t height, width, channels;

    const std::uint8_t* row(std::int64_t y) const { return pixels + y * width * channels; }
  };
  /// The pixels that rows are taken from, and where in them the result lies; it may reach beyond.
  struct Base {
    PixelView view;
    Rect part;
  };

  Base base() const {
    if (image.source_) return decoded();
    return {{image.memory_, image.source_height_, image.source_width_, image.channels_},
            image.region_};
  }

  /// The part of the source that the region shows; all of it where the padding may need more.
  Base decoded() const {
    const Rect& region = image.region_;
    Rect part{0, 0, image.source_height_, image.source_width_};
    if (!image.padded()) part = region;
    std::uint8_t* out = scratch(buffers().decoded, part.height * part.width * image.channels_);
    image.source_->read(part, out);
    return {{out, part.height, part.width, image.channels_},
            {region.top - part.top, region.left - part.left, region.height, region.width}};
  }

  /// Row `y` of the part, of which all columns lie inside; null if it lies beside the source.
  const std::uint8_t* row_in_place(const Base& base, std::int64_t y) const {
    const std::int64_t source_y = inside(base.part.top + y, base.view.height, image.padding_);
    if (source_y < 0) return nullptr;
    return base.view.row(source_y) + base.part.left * base.view.channels;
  }

  /// Writes row `y` of the part to `out`, mirrored if the image is.
  void compose(const Base& base, std::int64_t y, std::uint8_t* out) const {
    const PixelView& view = base.view;
    const Rect& part = base.part;
    const std::int64_t channels = view.channels, width = part.width;
    const std::int64_t source_y = inside(part.top + y, view.height, image.padding_);
    if (source_y < 0) {
      std::memset(out, image.fill_, static_cast<std::size_t>(width * channels));
      return;
    }
    const std::uint8_t* line = view.row(source_y);
    // Columns [first, last) show the image, the others lie beside it.
    const std::int64_t first = std::clamp<std::int64_t>(-part.left, 0, width);
    const std::int64_t last = std::clamp<std::int64_t>(view.width - part.left, first, width);
    const std::uint8_t* shown = line + (part.left + first) * channels;
    if (image.mirrored_) {
      kernels.mirror(shown, last - first, channels, out + (width - last) * channels);
    } else if (last > first) {
      std::memcpy(out + first * channels, shown,
                  static_cast<std::size_t>((last - first) * channels));
    }
    const auto fill = [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t x = from; x < to; ++x) {
        const std::int64_t source_x = inside(part.left + x, view.width, image.padding_);
        std::uint8_t* pixel = out + (image.mirrored_ ? width - 1 - x : x) * channels;
        for (std::int64_t c = 0; c < channels; ++c) {
          pixel[c] = source_x < 0 ? image.fill_ : line[source_x * channels + c];
        }
      }
    };
    fill(0, first);
    fill(last, width);
  }

  void store(const std::uint8_t* from, std::int64_t count, std::uint8_t* to) const {
    std::memcpy(to, from, static_cast<std::size_t>(count));
  }
  void store(const std::uint8_t* from, std::int64_t count, float* to) const {
    const FloatPattern& pattern = buffers().pattern;
    for (std::int64_t i = 0; i < count; i += FloatPattern::kElements) {
      kernels.to_float(from + i, pattern.scale(), pattern.shift(),
                       std::min(count - i, FloatPattern::kElements), to + i);
    }
  }

  template <class T>
  static void prefetch(const T* place, std::int64_t count) {
    constexpr std::int64_t kLine = 64 / sizeof(T);
    for (std::int64_t i = 0; i < count; i += kLine) __builtin_prefetch(place + i, 1);
  }

  template <class T>
  void write(T* destination) const {
    if constexpr (std::is_same_v<T, float>) {
      buffers().pattern.set(image.scale_, image.shift_, image.channels_);
    }
    image.resized_ ? write_resized(destination) : write_region(destination);
  }

  /// Each row goes to its place as soon as it is known.
  template <class T>
  void write_resized(T* destination) const {
    const std::int64_t channels = image.channels_, width = image.window_.width;
    const std::int64_t elements = width * channels, last = image.window_.height - 1;
    std::uint8_t* mirrored = scratch(buffers().strip, image.mirrored_ ? elements : 0);
    const auto emit = [&](std::int64_t y, const std::uint8_t* row) {
      if (image.mirrored_) {
        kernels.mirror(row, width, channels, mirrored);
        row = mirrored;
      }
      T* to = destination + (image.upside_down_ ? last - y : y) * elements;
      store(row, elements, to);
      // Batches are larger than caches: the next row's place comes while the row is being made.
      if (y < last) prefetch(image.upside_down_ ? to - elements : to + elements, elements);
    };
    const Resizing resizing{image.region_, image.resized_height_, image.resized_width_,
                            image.interpolation_, image.window_};
    if (image.source_) return resample(*image.source_, resizing, emit);
    const PixelMemory memory(image.memory_, image.source_height_, image.source_width_, channels,
                             image.source_width_ * channels);
    resample(memory, resizing, emit);
  }

  template <class T>
  void write_region(T* destination) const {
    const FreedIfLarge freed{buffers().decoded};
    const Base base = this->base();
    const Rect& part = base.part;
    const std::int64_t elements = part.width * image.channels_;
    const bool whole_rows = part.left == 0 && part.width == base.view.width && part.top >= 0 &&
                            part.top + part.height <= base.view.height;
    if (whole_rows && !image.mirrored_ && !image.upside_down_) {
      store(base.view.row(part.top), part.height * elements, destination);
      return;
    }
    // Several rows are composed before they are converted: loads that are wider than the stores
    // just made would have to wait for them. A mirrored 32x32 image takes a fifth less time so.
    const bool in_place =
        !image.mirrored_ && part.left >= 0 && part.left + part.width <= base.view.width;
    const std::int64_t at_once =
        in_place ? 1 : std::clamp<std::int64_t>(kStripBytes / elements, 1, part.height);
    std::uint8_t* strip = scratch(buffers().strip, at_once * elements);
    const auto line = [&](std::int64_t y) { return image.upside_down_ ? part.height - 1 - y : y; };
    for (std::int64_t y = 0; y < part.height; y += at_once) {
      const std::int64_t rows = std::min(at_once, part.height - y);
      const std::uint8_t* pixels = in_place ? row_in_place(base, line(y)) : nullptr;
      if (!pixels) {
        for (std::int64_t i = 0; i < rows; ++i) compose(base, line(y + i), strip + i * elements);
        pixels = strip;
      }
      store(pixels, rows * elements, destination + y * elements);
    }
  }
};

Image::Image(const Tensor& pixels) {
  check<ValueError>(pixels.defined(), "Image: the tensor of pixels is undefined");
  check<DTypeError>(pixels.dtype() == kUInt8, "Image: pixels are {}, expected uint8",
                    name_of(pixels.dtype()));
  check<ShapeError>(
      pixels.dim() == 3 && (pixels.size(0) == 1 || pixels.size(0) == 3) && pixels.numel() > 0,
      "Image: pixels of size {}, expected [C, H, W] with 1 or 3 channels", pixels.sizes());
  const Tensor rows = pixels.permute({1, 2, 0}).contiguous();
  *this = Image(rows.data_ptr<std::uint8_t>(), rows.size(0), rows.size(1), rows.size(2));
  owner_ = rows;
}

Image::Image(const std::uint8_t* pixels, std::int64_t height, std::int64_t width,
             std::int64_t channels)
    : Image(height, width, channels) {
  check<ValueError>(pixels != nullptr, "Image: the pixels are null");
  memory_ = pixels;
}

Image::Image(std::shared_ptr<const PixelSource> source)
    : Image(checked(source).height, checked(source).width, checked(source).channels) {
  source_ = std::move(source);
}

Image::Image(std::int64_t height, std::int64_t width, std::int64_t channels)
    : channels_(channels),
      source_height_(height),
      source_width_(width),
      region_{0, 0, height, width} {
  check<ShapeError>(height >= 1 && width >= 1 && (channels == 1 || channels == 3),
                    "Image: {} x {} pixels of {} channels, expected at least one pixel and 1 or 3 "
                    "channels",
                    height, width, channels);
}

void Image::check_defined(const char* what) const {
  check<ValueError>(defined(), "Image::{}: there is no image", what);
}

Rect Image::shown() const { return resized_ ? window_ : region_; }

bool Image::padded() const {
  return region_.top < 0 || region_.left < 0 || region_.top + region_.height > source_height_ ||
         region_.left + region_.width > source_width_;
}

Image& Image::crop(const Rect& wanted, PaddingMode mode, std::uint8_t fill) {
  check_defined("crop");
  check<ValueError>(wanted.height >= 1 && wanted.width >= 1,
                    "Image::crop: {} x {} pixels, both sizes must be at least 1", wanted.height,
                    wanted.width);
  constexpr std::int64_t kFar = 1 << 28;
  check<ValueError>(std::max({wanted.height, wanted.width, wanted.top, wanted.left}) <= kFar &&
                        std::min(wanted.top, wanted.left) >= -kFar,
                    "Image::crop: {} x {} pixels at ({}, {}) reach beyond 2^28", wanted.height,
                    wanted.width, wanted.top, wanted.left);
  const std::int64_t rows = height(), columns = width();
  const bool within = wanted.top >= 0 && wanted.left >= 0 && wanted.top + wanted.height <= rows &&
                      wanted.left + wanted.width <= columns;
  if (!within && (mode == PaddingMode::reflect || mode == PaddingMode::symmetric)) {
    const std::int64_t border = mode == PaddingMode::reflect ? 1 : 0;
    check<ValueError>(
        wanted.top >= border - rows && wanted.top + wanted.height <= 2 * rows - border &&
            wanted.left >= border - columns && wanted.left + wanted.width <= 2 * columns - border,
        "Image::crop: {} x {} pixels at ({}, {}) reach more than a whole image of {} x {} beyond "
        "it; mirrored padding ends there",
        wanted.height, wanted.width, wanted.top, wanted.left, rows, columns);
  }
  // Padding borders on what is shown, which must then be all there is.
  const bool all = region_ == Rect{0, 0, source_height_, source_width_} && !resized_;
  if (!within && !all) settle();
  if (!within) {
    padding_ = mode;
    fill_ = fill;
  }
  Rect& shown = resized_ ? window_ : region_;
  shown.top += upside_down_ ? rows - wanted.top - wanted.height : wanted.top;
  shown.left += mirrored_ ? columns - wanted.left - wanted.width : wanted.left;
  shown.height = wanted.height;
  shown.width = wanted.width;
  return *this;
}

Image& Image::flip_horizontal() {
  check_defined("flip_horizontal");
  mirrored_ = !mirrored_;
  return *this;
}

Image& Image::flip_vertical() {
  check_defined("flip_vertical");
  upside_down_ = !upside_down_;
  return *this;
}

Image& Image::resize(std::int64_t rows, std::int64_t columns, Interpolation interpolation) {
  check_defined("resize");
  check<ValueError>(rows >= 1 && columns >= 1,
                    "Image::resize: {} x {} pixels, both sizes must be at least 1", rows, columns);
  if (rows == height() && columns == width()) return *this;
  if (resized_ || mirrored_ || upside_down_ || padded()) settle();
  resized_ = true;
  interpolation_ = interpolation;
  resized_height_ = rows;
  resized_width_ = columns;
  window_ = {0, 0, rows, columns};
  return *this;
}

Image& Image::convert(std::int64_t channels) {
  check_defined("convert");
  check<ValueError>((channels == 1 || channels == 3) && !is_float_,
                    "Image::convert: {} channels{}, expected 1 or 3 before to_float()", channels,
                    is_float_ ? " of numbers" : "");
  if (channels == channels_) return *this;
  settle();
  const std::int64_t count = source_height_ * source_width_;
  Tensor converted = empty({source_height_, source_width_, channels}, kUInt8);
  auto* out = converted.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    if (channels == 3) {
      for (int c = 0; c < 3; ++c) out[i * 3 + c] = memory_[i];
    } else {
      const std::uint8_t* rgb = memory_ + i * 3;
      out[i] = luma(rgb[0], rgb[1], rgb[2]);
    }
  }
  *this = Image(out, source_height_, source_width_, channels);
  owner_ = std::move(converted);
  own_ = true;
  return *this;
}

Image& Image::to_float() {
  check_defined("to_float");
  if (is_float_) return *this;
  is_float_ = true;
  std::fill_n(scale_, kMaxChannels, 1.0 / 255);
  std::fill_n(shift_, kMaxChannels, 0.0);
  return *this;
}

Image& Image::normalize(const double* mean, const double* std) {
  check<ValueError>(is_float_, "Image::normalize: the image has no numbers yet; call to_float()");
  for (std::int64_t c = 0; c < channels_; ++c) {
    check<ValueError>(std[c] != 0, "Image::normalize: the deviation of channel {} is 0", c);
    scale_[c] /= std[c];
    shift_[c] = (shift_[c] - mean[c]) / std[c];
  }
  return *this;
}

void Image::settle() {
  Tensor pixels = empty({height(), width(), channels_}, kUInt8);
  Access{*this}.write(pixels.data_ptr<std::uint8_t>());
  Image settled(pixels.data_ptr<std::uint8_t>(), pixels.size(0), pixels.size(1), channels_);
  settled.owner_ = std::move(pixels);
  settled.own_ = true;
  settled.is_float_ = is_float_;
  std::copy_n(scale_, kMaxChannels, settled.scale_);
  std::copy_n(shift_, kMaxChannels, settled.shift_);
  *this = std::move(settled);
}

Image& Image::keep() {
  check_defined("keep");
  if (memory_ != nullptr && !owner_.defined()) settle();
  return *this;
}

Tensor Image::pixels() {
  check_defined("pixels");
  const bool settled = own_ && !resized_ && !mirrored_ && !upside_down_ &&
                       region_ == Rect{0, 0, source_height_, source_width_};
  if (!settled || owner_.impl()->references != 1) settle();
  return owner_;
}

Tensor Image::tensor() const {
  check_defined("tensor");
  // Made as a batch of one for the sake of its strides.
  Tensor batch =
      empty({1, channels_, height(), width()}, is_float_ ? kFloat32 : kUInt8, kChannelsLast);
  if (is_float_) {
    write(batch.data_ptr<float>());
  } else {
    write(batch.data_ptr<std::uint8_t>());
  }
  return batch[0];
}

void Image::write(float* destination) const {
  check<ValueError>(defined() && is_float_,
                    "Image::write: the image has no numbers yet; call "
                    "to_float()");
  Access{*this}.write(destination);
}

void Image::write(std::uint8_t* destination) const {
  check_defined("write");
  Access{*this}.write(destination);
}

}  // namespace facula::data
