#include "io/arrays/npy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "io/bounded.h"

namespace facula::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
/// NumPy's own limit.
constexpr size_t kMaxRank = 64;

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

/// Parses {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }: the keys in any order, each
/// once.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  Header parse() {
    bool has_descr = false, has_order = false, has_shape = false;
    Header header;
    expect('{');
    while (!accept('}')) {
      const auto key = string();
      expect(':');
      if (key == "descr" && !std::exchange(has_descr, true)) {
        header.descr = dtype();
      } else if (key == "fortran_order" && !std::exchange(has_order, true)) {
        header.fortran_order = boolean();
      } else if (key == "shape" && !std::exchange(has_shape, true)) {
        header.shape = shape();
      } else {
        unexpected();
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (position_ != text_.size() || !has_descr || !has_order || !has_shape) unexpected();
    return header;
  }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  void skip_spaces() {
    position_ = std::min(text_.find_first_not_of(" \t\r\n", position_), text_.size());
  }

  /// The next character that is no space; NUL at the end.
  char peek() {
    skip_spaces();
    return position_ < text_.size() ? text_[position_] : '\0';
  }

  bool accept(char wanted) {
    if (peek() != wanted || position_ == text_.size()) return false;
    ++position_;
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) unexpected();
  }

  std::string_view string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') unexpected();
    const size_t begin = position_ + 1;
    const size_t end = text_.find(quote, begin);
    if (end == text_.npos) unexpected();
    const auto value = text_.substr(begin, end - begin);
    if (value.find_first_of("\\\n") != value.npos) unexpected();
    position_ = end + 1;
    return value;
  }

  std::string dtype() {
    check<IoError>(
        peek() != '[' && peek() != '(',
        "{}: an array of records (a structured dtype), expected one of numbers; save each "
        "field as an array of its own",
        source_);
    return std::string(string());
  }

  bool boolean() {
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      skip_spaces();
      if (text_.substr(position_).starts_with(word)) {
        position_ += word.size();
        return value;
      }
    }
    unexpected();
  }

  int64_t integer() {
    if (!is_digit(peek())) unexpected();
    int64_t value = 0;
    while (position_ < text_.size() && is_digit(text_[position_])) {
      const bool overflow = __builtin_mul_overflow(value, int64_t{10}, &value) ||
                            __builtin_add_overflow(value, text_[position_++] - '0', &value);
      if (overflow) unexpected();
    }
    // Python 2 wrote long integers that way.
    if (position_ < text_.size() && text_[position_] == 'L') ++position_;
    return value;
  }

  std::vector<int64_t> shape() {
    std::vector<int64_t> dims;
    expect('(');
    while (!accept(')')) {
      if (dims.size() == kMaxRank) unexpected();
      dims.push_back(integer());
      if (accept(',')) continue;
      if (dims.size() < 2) unexpected();  // (3) is a number, (3,) a tuple
      expect(')');
      break;
    }
    return dims;
  }

  [[noreturn]] void unexpected() const {
    fail<IoError>(
        "{}: the npy header is not what the format asks for near its character {}; the file is "
        "damaged or of another format, check it",
        source_, position_);
  }

  std::string_view text_;
  const std::string& source_;
  size_t position_ = 0;
};

struct KnownDType {
  std::string_view name;
  DType dtype;
};

constexpr KnownDType kDTypes[] = {
    {"f4", kFloat32}, {"f8", kFloat64}, {"i4", kInt32}, {"i8", kInt64}, {"u1", kUInt8},
    {"b1", kBool},    {"f2", kFloat16}, {"i1", kInt8},  {"i2", kInt16},
};

struct LackingDType {
  std::string_view name;
  uint64_t size;
};

/// Numbers of NumPy's that Facula lacks; f16 is the long double of x86.
constexpr LackingDType kLackingDTypes[] = {{"u2", 2},   {"u4", 4},   {"u8", 8},  {"c8", 8},
                                           {"c16", 16}, {"f16", 16}, {"c32", 32}};

/// A file's text, made safe and short for messages.
std::string quoted(std::string_view text) {
  constexpr size_t kLongest = 40;
  std::string safe;
  for (const char c : text.substr(0, kLongest)) safe += c >= ' ' && c <= '~' ? c : '?';
  return "'" + safe + (text.size() > kLongest ? "...'" : "'");
}

/// Sets what the header's text says about elements.
void parse_dtype(NpyFile& file, const std::string& source) {
  const std::string_view text = file.dtype;
  const char order = text.empty() ? '\0' : text[0];
  const auto name = text.substr(std::min<size_t>(1, text.size()));
  check<IoError>(
      !name.starts_with('O'),
      "{}: an array of Python objects, which is a pickle and could run code; save an array "
      "of numbers instead",
      source);
  const auto* known = std::ranges::find(kDTypes, name, &KnownDType::name);
  const auto* lacking = std::ranges::find(kLackingDTypes, name, &LackingDType::name);
  const bool found = known != std::end(kDTypes) || lacking != std::end(kLackingDTypes);
  check<IoError>(found && std::string_view("<>=|").find(order) != text.npos,
                 "{}: an array of dtype {}, expected numbers; convert it with astype(), for "
                 "instance to '<i4' or '<f4'",
                 source, quoted(file.dtype));
  if (known != std::end(kDTypes)) file.facula_dtype = known->dtype;
  file.item_size = file.facula_dtype ? size_of(*file.facula_dtype) : lacking->size;
  file.big_endian = order == '>' && file.item_size > 1;
}

/// Strides in elements, and the bytes that all elements take; nothing if that overflows. Empty
/// dimensions count as ones, because strides are computed from the others all the same.
std::optional<uint64_t> lay_out(const NpyFile& file, std::vector<int64_t>& strides) {
  const size_t rank = file.shape.size();
  strides.resize(rank);
  int64_t step = 1, bytes = 0;
  bool empty = false;
  for (size_t k = 0; k < rank; ++k) {
    const size_t d = file.fortran_order ? k : rank - 1 - k;
    strides[d] = step;
    empty |= file.shape[d] == 0;
    if (__builtin_mul_overflow(step, std::max<int64_t>(file.shape[d], 1), &step))
      return std::nullopt;
  }
  if (__builtin_mul_overflow(step, static_cast<int64_t>(file.item_size), &bytes))
    return std::nullopt;
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

}  // namespace

NpyFile read_npy(std::span<const uint8_t> file, const std::string& source) {
  BoundedReader reader(file, source);
  const auto magic = reader.take(kMagic.size(), "the npy magic string");
  check<IoError>(std::ranges::equal(magic, kMagic,
                                    [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); }),
                 "{}: does not begin as an npy file does; check the path", source);
  const int major = reader.u8("the npy version"), minor = reader.u8("the npy version");
  check<IoError>(
      major >= 1 && major <= 3 && minor == 0,
      "{}: npy version {}.{}, known are 1.0, 2.0 and 3.0; save it again with another one", source,
      major, minor);
  const uint64_t length = major == 1 ? uint64_t{reader.u16_le("the length of the npy header")}
                                     : uint64_t{reader.u32_le("the length of the npy header")};
  const auto text = reader.take(length, "the npy header");
  Header header =
      HeaderParser({reinterpret_cast<const char*>(text.data()), text.size()}, source).parse();

  NpyFile array;
  array.dtype = std::move(header.descr);
  array.fortran_order = header.fortran_order;
  array.shape = std::move(header.shape);
  parse_dtype(array, source);
  std::vector<int64_t> strides;
  const auto bytes = lay_out(array, strides);
  check<IoError>(
      bytes == reader.remaining(),
      "{}: elements of dtype {} and shape [{}] do not match the {} bytes that follow the npy "
      "header; the file is truncated, damaged or holds several arrays",
      source, quoted(array.dtype), fmt::join(array.shape, ", "), reader.remaining());
  array.data = reader.take(*bytes, "npy data");
  return array;
}

NpyArray parse_npy(std::span<const uint8_t> bytes, const std::string& source) {
  NpyFile file = read_npy(bytes, source);
  check<IoError>(file.facula_dtype.has_value(),
                 "{}: an array of dtype {}, expected numbers of a dtype that Facula has; convert "
                 "it with astype(), for instance to '<i4' or '<f4'",
                 source, quoted(file.dtype));
  check<IoError>(!file.big_endian,
                 "{}: a big-endian array of dtype {}; convert it with "
                 "astype('<{}')",
                 source, quoted(file.dtype), file.dtype.substr(1));
  NpyArray array{.dtype = *file.facula_dtype, .shape = {}, .strides = {}, .data = file.data};
  lay_out(file, array.strides);
  array.shape = std::move(file.shape);
  return array;
}

}  // namespace facula::io
