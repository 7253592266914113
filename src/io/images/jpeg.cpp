#include "io/images/jpeg.h"

#include <csetjmp>
#include <cstddef>
#include <cstdio>  // jpeglib.h needs FILE

#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "io/bounded.h"
#include "io/images/exif.h"

namespace facula::io {
namespace {

/// A block of 8x8 pixels takes at least one bit of a Huffman-coded file.
constexpr int64_t kPixelsPerByte = 512;
/// Those of an arithmetic-coded file may take next to nothing: images of so many pixels are decoded
/// however short the file is.
constexpr int64_t kFreeArithmeticPixels = int64_t{16} << 20;
/// libjpeg keeps the coefficients of files of several scans, two bytes each: enough for RGB with
/// halved colours at kMaxPixels.
constexpr long kMaxCoefficientBytes = 1L << 30;
/// Each scan goes through the whole image, however few bytes it has. Encoders write up to about a
/// dozen; the limit is what bounds the time that a made-up file can take.
constexpr int kMaxScans = 100, kMaxScansOfHuge = 16;
constexpr int64_t kMaxScannedPixels = int64_t{1} << 31;

namespace marker {
constexpr uint8_t kTemporary = 0x01, kRestart0 = 0xd0, kRestart7 = 0xd7, kStart = 0xd8, kEnd = 0xd9,
                  kScan = 0xda, kApp1 = 0xe1;
constexpr uint8_t kFrame0 = 0xc0, kFrame15 = 0xcf, kHuffmanTables = 0xc4, kExtension = 0xc8,
                  kArithmeticConditions = 0xcc, kFirstArithmetic = 0xc9;
}  // namespace marker

bool is_frame(uint8_t code) {
  return code >= marker::kFrame0 && code <= marker::kFrame15 && code != marker::kHuffmanTables &&
         code != marker::kExtension && code != marker::kArithmeticConditions;
}

bool stands_alone(uint8_t code) {
  return code == marker::kTemporary || code == marker::kStart ||
         (code >= marker::kRestart0 && code <= marker::kRestart7);
}

/// The code of the next marker: like every decoder, passes over bytes that do not belong there.
uint8_t next_marker(BoundedReader& reader) {
  while (true) {
    while (reader.u8("a JPEG marker") != 0xff) {
    }
    uint8_t code;
    do {
      code = reader.u8("a JPEG marker");
    } while (code == 0xff);
    if (code != 0) return code;
  }
}

/// Reads the frame header (ISO 10918-1, B.2.2).
void read_frame(uint8_t code, std::span<const uint8_t> segment, const std::string& name,
                ImageHeader& header) {
  const int process = code - marker::kFrame0;
  check<IoError>(process <= 2 || process == 9 || process == 10,
                 "{}: a JPEG file of process {} (lossless or hierarchical) is not supported; save "
                 "it as a baseline or progressive one",
                 name, process);
  BoundedReader frame(segment, name);
  const int precision = frame.u8("the sample precision");
  header.height = frame.u16_be("the height");
  header.width = frame.u16_be("the width");
  const int components = frame.u8("the number of components");
  check<IoError>(precision == 8,
                 "{}: a JPEG file of {} bits per sample is not supported; save it with 8", name,
                 precision);
  check<IoError>(header.height > 0 && header.width > 0,
                 "{}: a JPEG image of {}x{} pixels; the file is damaged, get it again", name,
                 header.height, header.width);
  check<IoError>(components == 1 || components == 3 || components == 4,
                 "{}: a JPEG image of {} components, supported are 1, 3 and 4", name, components);
  header.channels = components == 1 ? 1 : 3;
}

void check_size(const ImageHeader& header, bool arithmetic, size_t file_size,
                const std::string& name) {
  const int64_t pixels = header.height * header.width;
  check<IoError>(pixels <= kMaxPixels, "{}: {}x{} pixels, the limit is {}; make the image smaller",
                 name, header.height, header.width, kMaxPixels);
  if (pixels / kPixelsPerByte <= static_cast<int64_t>(file_size)) return;
  check<IoError>(arithmetic,
                 "{}: {} bytes cannot hold the {}x{} pixels that the file declares; it is damaged, "
                 "get it again",
                 name, file_size, header.height, header.width);
  check<IoError>(pixels <= kFreeArithmeticPixels,
                 "{}: an arithmetic-coded JPEG file of {} bytes for {}x{} pixels, which would take "
                 "far more memory than its size justifies; if you trust it, save it with Huffman "
                 "coding, as jpegtran does",
                 name, file_size, header.height, header.width);
}

/// libjpeg reports errors through a callback that must not return. It jumps out of libjpeg to
/// succeeds(), over frames that hold nothing to destroy; only there is an exception thrown.
class JpegDecoder final : public RowReader {
 public:
  JpegDecoder(std::span<const uint8_t> file, const std::string& name) : name_(name) {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr info) { self(info).jump(Reason::libjpeg); };
    // Warnings are tolerated, as Pillow does: what they are about is never more than wrong pixels.
    errors_.emit_message = [](j_common_ptr, int) {};
    info_.client_data = this;
    source_.next_input_byte = file.data();
    source_.bytes_in_buffer = file.size();
    source_.init_source = source_.term_source = [](j_decompress_ptr) {};
    source_.resync_to_restart = jpeg_resync_to_restart;
    source_.fill_input_buffer = [](j_decompress_ptr info) -> boolean {
      self(info).jump(Reason::truncated);
    };
    source_.skip_input_data = [](j_decompress_ptr info, long count) {
      if (count > 0) self(info).skip(static_cast<size_t>(count));
    };
    progress_.progress_monitor = [](j_common_ptr info) { self(info).check_scans(); };
  }
  ~JpegDecoder() override { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  void start(const ImageHeader& header, int scale_denominator);
  /// To be called once, after start().
  void select(const ImageRegion& region);
  PixelRows next(int64_t count) override;

 private:
  enum class Reason { none, libjpeg, truncated, scans };

  template <class Info>
  static JpegDecoder& self(Info* info) {
    return *static_cast<JpegDecoder*>(info->client_data);
  }
  [[noreturn]] void jump(Reason reason) {
    reason_ = reason;
    std::longjmp(back_, 1);
  }
  /// Runs `action`, in which nothing may need destruction when libjpeg fails. False if it does.
  template <class Action>
  bool succeeds(const Action& action) {
    if (setjmp(back_) != 0) return false;
    action();
    return true;
  }
  template <class Action>
  void guarded(const Action& action) {
    if (!succeeds(action)) raise();
  }
  [[noreturn]] void raise();

  void skip(size_t count) {
    if (count > source_.bytes_in_buffer) jump(Reason::truncated);
    source_.next_input_byte += count;
    source_.bytes_in_buffer -= count;
  }
  void check_scans() {
    const int64_t pixels = int64_t{info_.image_height} * info_.image_width;
    const int64_t limit =
        std::clamp<int64_t>(kMaxScannedPixels / pixels, kMaxScansOfHuge, kMaxScans);
    if (info_.input_scan_number > limit) jump(Reason::scans);
  }

  bool is_partly_scaled() const;
  bool smooths_blocks() const;
  int64_t crop(const ImageRegion& region);
  void finish();

  const std::string& name_;
  jpeg_decompress_struct info_ = {};
  jpeg_error_mgr errors_ = {};
  jpeg_source_mgr source_ = {};
  jpeg_progress_mgr progress_ = {};
  Reason reason_ = Reason::none;
  std::jmp_buf back_;
  // Rows as libjpeg writes them, of which the first bytes_before_ are beside the region.
  std::vector<uint8_t> rows_;
  std::vector<uint8_t*> targets_;
  int64_t row_bytes_ = 0, bytes_before_ = 0;
};

void JpegDecoder::raise() {
  if (reason_ == Reason::truncated) {
    fail<IoError>(
        "{}: the JPEG file ends in the middle of the image; it is truncated, get it again", name_);
  }
  if (reason_ == Reason::scans) {
    fail<IoError>("{}: a JPEG file of more than {} scans for {}x{} pixels; save it anew", name_,
                  info_.input_scan_number - 1, info_.image_height, info_.image_width);
  }
  char message[JMSG_LENGTH_MAX];
  errors_.format_message(reinterpret_cast<j_common_ptr>(&info_), message);
  if (errors_.msg_code == JERR_OUT_OF_MEMORY)
    fail<OutOfMemory>("{}: no memory to decode it ({})", name_, message);
  if (errors_.msg_code == JERR_NO_BACKING_STORE) {
    fail<IoError>(
        "{}: decoding this JPEG file of several scans takes more than {} MiB; save it as "
        "a baseline one",
        name_, kMaxCoefficientBytes >> 20);
  }
  fail<IoError>("{}: {}; the JPEG file is damaged or of an unsupported kind", name_, message);
}

void JpegDecoder::start(const ImageHeader& header, int scale_denominator) {
  guarded([&] {
    jpeg_create_decompress(&info_);
    info_.mem->max_memory_to_use = kMaxCoefficientBytes;
    info_.src = &source_;
    info_.progress = &progress_;
    jpeg_read_header(&info_, TRUE);
  });
  check<IoError>(info_.image_height == header.stored_height() &&
                     info_.image_width == header.stored_width() &&
                     (info_.num_components == 1 ? 1 : 3) == header.channels,
                 "{}: the JPEG file has several image headers that contradict each other; it is "
                 "damaged, get it again",
                 name_);
  guarded([&] {
    if (info_.num_components == 3) info_.out_color_space = JCS_RGB;
    if (info_.num_components == 4) info_.out_color_space = JCS_CMYK;
    info_.scale_num = 1;
    info_.scale_denom = static_cast<unsigned>(scale_denominator);
    jpeg_start_decompress(&info_);
  });
}

/// Whether scaling leaves a component whose width jpeg_crop_scanline mistakes. Instead of scaling a
/// component and interpolating it, libjpeg scales it by less, by powers of two that both of its
/// sampling ratios are multiples of. Where that is not all (ratios 4x2, 2x4; 4x4 at a half), the
/// rest is interpolated, and cropping takes the component for narrower than it is.
bool JpegDecoder::is_partly_scaled() const {
  const int denominator = static_cast<int>(info_.scale_denom);
  for (int i = 0; i < info_.num_components; ++i) {
    const int across = info_.comp_info[i].h_samp_factor, down = info_.comp_info[i].v_samp_factor;
    const int most_across = info_.max_h_samp_factor, most_down = info_.max_v_samp_factor;
    const bool less = most_across % (2 * across) == 0 && most_down % (2 * down) == 0;
    const bool all =
        most_across * down == most_down * across && most_across / across <= denominator;
    if (denominator > 1 && less && !all) return true;
  }
  return false;
}

/// True where frequencies are missing in a progressive file: libjpeg then estimates them from the
/// blocks around, so that pixels depend on what is far away.
bool JpegDecoder::smooths_blocks() const {
  constexpr int kEstimated = 10;  // the first frequencies in zigzag order, constant one included
  if (info_.coef_bits == nullptr) return false;
  for (int i = 0; i < info_.num_components; ++i) {
    for (int k = 1; k < kEstimated; ++k) {
      if (info_.coef_bits[i][k] != 0) return true;
    }
  }
  return false;
}

/// Restricts decoding to what the columns of `region` need; returns the first column decoded.
/// Colours are interpolated from their neighbours to the left and right, hence the margin. Narrow
/// parts are avoided because libjpeg interpolates only what is wider than two colour samples.
int64_t JpegDecoder::crop(const ImageRegion& region) {
  const int64_t sample = info_.max_h_samp_factor, narrowest = 4 * sample;
  const int64_t width = info_.output_width;
  const int64_t right = std::min(width, std::max(region.left + region.width + sample, narrowest));
  const int64_t left = std::max<int64_t>(0, std::min(region.left - sample, right - narrowest));
  if (smooths_blocks() || is_partly_scaled() || (left == 0 && right == width)) return 0;
  auto first = static_cast<JDIMENSION>(left), count = static_cast<JDIMENSION>(right - left);
  guarded([&] { jpeg_crop_scanline(&info_, &first, &count); });
  return first;
}

/// Inverted CMYK, as all programs write it following Adobe's, to RGB, in place; rounded as Pillow
/// does.
void cmyk_to_rgb(uint8_t* pixels, int64_t count) {
  const uint8_t* cmyk = pixels;
  uint8_t* rgb = pixels;
  for (int64_t i = 0; i < count; ++i, cmyk += 4, rgb += 3) {
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - cmyk[c]) * cmyk[3] + 128;
      rgb[c] = static_cast<uint8_t>(std::max(0, cmyk[3] - ((product + (product >> 8)) >> 8)));
    }
  }
}

void JpegDecoder::select(const ImageRegion& region) {
  const int64_t before = region.left - crop(region);
  bytes_before_ = before * (info_.out_color_space == JCS_CMYK ? 3 : info_.output_components);
  row_bytes_ = int64_t{info_.output_width} * info_.output_components;
  guarded([&] {
    if (region.top > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(region.top));
  });
}

PixelRows JpegDecoder::next(int64_t count) {
  const auto bytes = static_cast<size_t>(count * row_bytes_ + kSlack);
  if (rows_.size() < bytes) rows_.resize(bytes);
  targets_.clear();
  for (int64_t y = 0; y < count; ++y) targets_.push_back(rows_.data() + y * row_bytes_);
  const JDIMENSION end = info_.output_scanline + static_cast<JDIMENSION>(count);
  guarded([&] {
    uint8_t** target = targets_.data();
    while (info_.output_scanline < end)
      target += jpeg_read_scanlines(&info_, target, end - info_.output_scanline);
  });
  if (info_.out_color_space == JCS_CMYK)
    for (uint8_t* row : targets_) cmyk_to_rgb(row, info_.output_width);
  if (info_.output_scanline == info_.output_height) finish();
  return {rows_.data() + bytes_before_, row_bytes_};
}

/// Like Pillow, refuses files with damage after the last row, where other images would follow, but
/// not those that lack the end marker.
void JpegDecoder::finish() {
  if (!succeeds([&] { jpeg_finish_decompress(&info_); }) && reason_ != Reason::truncated) raise();
}

}  // namespace

ImageHeader read_jpeg_header(std::span<const uint8_t> file, const std::string& name) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  BoundedReader reader(file, name);
  ImageHeader header{.format = ImageFormat::jpeg};
  bool has_exif = false, arithmetic = false;
  for (uint8_t code = next_marker(reader); code != marker::kScan; code = next_marker(reader)) {
    if (stands_alone(code)) continue;
    check<IoError>(code != marker::kEnd,
                   "{}: the JPEG file contains no image; it is damaged, get it again", name);
    const uint16_t length = reader.u16_be("the length of a JPEG segment");
    check<IoError>(length >= 2, "{}: a JPEG segment of {} bytes; the file is damaged, get it again",
                   name, length);
    const auto segment = reader.take(length - 2, "a JPEG segment");
    if (is_frame(code)) {
      read_frame(code, segment, name, header);
      arithmetic = code >= marker::kFirstArithmetic;
    }
    const std::string_view text(reinterpret_cast<const char*>(segment.data()), segment.size());
    if (code == marker::kApp1 && !has_exif && text.starts_with(kExif)) {
      header.orientation = exif_orientation(segment.subspan(kExif.size()));
      has_exif = true;
    }
  }
  check<IoError>(
      header.channels != 0,
      "{}: the JPEG file has no image header before its data; it is damaged, get it again", name);
  check_size(header, arithmetic, file.size(), name);
  if (header.transposed()) std::swap(header.height, header.width);
  return header;
}

std::unique_ptr<RowReader> read_jpeg_rows(std::span<const uint8_t> file, const ImageHeader& header,
                                          const ImageRegion& stored, int scale_denominator,
                                          const std::string& name) {
  auto decoder = std::make_unique<JpegDecoder>(file, name);
  decoder->start(header, scale_denominator);
  decoder->select(stored);
  return decoder;
}

}  // namespace facula::io
