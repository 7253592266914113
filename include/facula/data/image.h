// Eight-bit images whose geometry is worked out when somebody looks at the pixels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <facula/tensor.h>

namespace facula::data {

/// Bilinear and bicubic (a = -0.5) are antialiased as in Pillow: when an image shrinks, the filter
/// widens, so that every pixel counts.
enum class Interpolation : std::uint8_t { nearest, bilinear, bicubic };

/// What lies beyond the border. constant: one value; edge: the nearest pixel; reflect: mirrored
/// without repeating the border (dcb|abcd|cba); symmetric: repeating it (cba|abcd|dcb).
enum class PaddingMode : std::uint8_t { constant, edge, reflect, symmetric };

/// A rectangle of pixels.
struct Rect {
  std::int64_t top = 0, left = 0, height = 0, width = 0;

  bool operator==(const Rect&) const = default;
};

class PixelSource;

/// An image of 1 (grey) or 3 (RGB) channels.
///
/// crop(), flip_horizontal(), resize(), to_float() and normalize() only note what is wanted. What
/// was noted is done in one pass when the pixels are asked for, or when the loader writes the image
/// into its place in a batch: a cropped, mirrored, normalised image exists nowhere but there, and
/// of a JPEG file only the part that the crop shows is decoded. The result is that of doing one
/// thing after the other.
///
/// Copies share the pixels. Inside a loader, an image of a data set in memory refers to the pixels
/// of the set; keep() makes it independent.
class FACULA_API Image {
 public:
  /// No image: defined() is false.
  Image() = default;
  /// The pixels of a uint8 tensor [C, H, W] with 1 or 3 channels, shared if it is stored
  /// channels-innermost and else copied. Throws DTypeError, ShapeError, or ValueError where it is
  /// undefined.
  explicit Image(const Tensor& pixels);
  /// Pixels that somebody else keeps: rows of `width * channels` bytes, one after the other. Throws
  /// ValueError for a null pointer and ShapeError without pixels or with other channels.
  Image(const std::uint8_t* pixels, std::int64_t height, std::int64_t width, std::int64_t channels);
  /// What `source` yields when asked. Throws as above.
  explicit Image(std::shared_ptr<const PixelSource> source);
  /// The JPEG or PNG file at `path`, upright as its EXIF orientation says; grey files have one
  /// channel. Only the header is read now. Throws IoError.
  static Image open(const std::string& path);

  bool defined() const { return channels_ != 0; }
  std::int64_t height() const { return shown().height; }
  std::int64_t width() const { return shown().width; }
  std::int64_t channels() const { return channels_; }
  /// True after to_float().
  bool is_float() const { return is_float_; }

  /// Keeps `part`, which may reach beyond the image; there `mode` says what is seen, for `constant`
  /// the value `fill` in every channel. Throws ValueError for an empty part, and for reflection
  /// beyond a whole image.
  Image& crop(const Rect& part, PaddingMode mode = PaddingMode::constant, std::uint8_t fill = 0);
  /// Swaps left and right.
  Image& flip_horizontal();
  /// Swaps top and bottom.
  Image& flip_vertical();
  /// Throws ValueError unless both sizes are at least 1.
  Image& resize(std::int64_t height, std::int64_t width,
                Interpolation interpolation = Interpolation::bilinear);
  /// Makes RGB of grey and the other way round (ITU-R 601 luma, as Pillow's "L").
  Image& convert(std::int64_t channels);

  /// From now on the image stands for numbers: pixels / 255.
  Image& to_float();
  /// Subtracts `mean` and divides by `std`, one value per channel. Throws ValueError unless
  /// to_float() came before and `std` is not 0.
  Image& normalize(const double* mean, const double* std);

  /// Copies pixels that the image only refers to, so that it may outlive who has them.
  Image& keep();
  /// uint8 [H, W, C], contiguous: all that was noted, done. Nobody else shares the memory: what is
  /// written to the tensor, until the next call, changes this image and copies made from then on.
  Tensor pixels();
  /// The image as a network takes it, [C, H, W] stored channels-innermost: float32 after
  /// to_float(), else uint8.
  Tensor tensor() const;
  /// Writes what tensor() would return to `destination`, height() * width() * channels() elements,
  /// channels innermost.
  void write(float* destination) const;
  void write(std::uint8_t* destination) const;

 private:
  struct Access;

  Image(std::int64_t height, std::int64_t width, std::int64_t channels);
  Rect shown() const;
  /// Whether the region reaches beyond the source.
  bool padded() const;
  /// Replaces source and notes by the pixels that they make.
  void settle();
  void check_defined(const char* what) const;

  static constexpr int kMaxChannels = 3;

  // Where pixels come from: memory, or a source that decodes them.
  const std::uint8_t* memory_ = nullptr;
  std::shared_ptr<const PixelSource> source_;
  /// Keeps `memory_`, unless the data set does.
  Tensor owner_;
  /// Nobody but copies of this image knows `owner_`.
  bool own_ = false;
  std::int64_t channels_ = 0, source_height_ = 0, source_width_ = 0;
  // What is done, in this order: a region is cut out, resized, a window cut out of the result,
  // which is turned and becomes numbers.
  Rect region_;
  PaddingMode padding_ = PaddingMode::constant;
  std::uint8_t fill_ = 0;
  bool resized_ = false;
  Interpolation interpolation_ = Interpolation::bilinear;
  std::int64_t resized_height_ = 0, resized_width_ = 0;
  Rect window_;
  bool mirrored_ = false, upside_down_ = false;
  bool is_float_ = false;
  double scale_[kMaxChannels] = {}, shift_[kMaxChannels] = {};
};

}  // namespace facula::data
