// Conversion loops between all pairs of dtypes.
#include <bit>
#include <cstdint>
#include <type_traits>

#include "backends/cpu/kernels/convert.h"
#include "backends/cpu/kernels/stream_line.h"

namespace facula::cpu::FACULA_ISA {
namespace {

struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

inline float to_float(BFloat16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }

/// Round to nearest even; NaN stays NaN.
inline BFloat16 to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const std::uint32_t nan = bits >> 16 | 0x40;
  return {static_cast<std::uint16_t>(x != x ? nan : rounded)};
}

/// Scaling by 2^112 turns a binary16 pattern moved into binary32 position into its value, denormals
/// included; infinities and NaNs get the exponent they need.
inline float to_float(Half x) {
  const std::uint32_t magnitude = std::uint32_t{x.bits & 0x7fffu} << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const bool special = magnitude >= 0x0f800000;
  const std::uint32_t bits =
      special ? (magnitude | 0x7f800000) : std::bit_cast<std::uint32_t>(scaled);
  return std::bit_cast<float>(bits | std::uint32_t{x.bits & 0x8000u} << 16);
}

/// Adding a power of two whose unit in the last place is that of the binary16 result lets the
/// addition do the rounding (to nearest even), for normal and denormal results alike.
inline Half to_half(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  const std::uint32_t magnitude = bits & 0x7fffffff;
  std::uint32_t exponent = magnitude & 0x7f800000;
  exponent = exponent < 0x38800000 ? 0x38800000 : exponent;  // 2^-14: least normal binary16
  const float anchor = std::bit_cast<float>(exponent + (13u << 23));
  const float rounded = (std::bit_cast<float>(magnitude) + anchor) - anchor;
  const auto value = std::bit_cast<std::uint32_t>(rounded);
  const float shifted = std::bit_cast<float>(value) * 0x1p-112f;
  std::uint32_t result = std::bit_cast<std::uint32_t>(shifted) >> 13;
  result = magnitude >= 0x477ff000 ? 0x7c00 : result;  // 65520, and where the anchor is infinite
  result = magnitude > 0x7f800000 ? 0x7e00 : result;
  return {static_cast<std::uint16_t>(sign | result)};
}

template <class T>
auto widen(T x) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return to_float(x);
  } else {
    return x;
  }
}

template <class To, class From>
To convert(From from) {
  const auto x = widen(from);
  if constexpr (std::is_same_v<To, Half>) {
    return to_half(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return to_bfloat16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != 0;
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<decltype(x)>) {
    // As PyTorch: through int64, so that negative values wrap in unsigned types instead of being
    // undefined. Values beyond int64, NaN included, become its least value.
    const bool fits = x > -9.2233720368547758e18 && x < 9.2233720368547758e18;
    return static_cast<To>(fits ? static_cast<std::int64_t>(x) : INT64_MIN);
  } else {
    return static_cast<To>(x);
  }
}

#ifdef __AVX512DQ__
constexpr bool kConvertsToInt64 = true;
#else
constexpr bool kConvertsToInt64 = false;
#endif

/// Integers of floating point values by way of int32, for which every instruction set has
/// conversions of vectors: a block after the other, if all its values fit. Returns how many are
/// done.
template <class To, class From>
std::int64_t convert_by_int32(const From* __restrict from, std::int64_t n, To* __restrict to) {
  constexpr std::int64_t kBlock = 64;
  using Flag = std::conditional_t<sizeof(From) == 8, std::int64_t, std::int32_t>;
  std::int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    Flag beyond = 0;
    for (std::int64_t k = i; k < i + kBlock; ++k) {
      beyond |= from[k] > From(-0x1p31) && from[k] < From(0x1p31) ? 0 : 1;
    }
    if (beyond != 0) {
      for (std::int64_t k = i; k < i + kBlock; ++k) to[k] = convert<To>(from[k]);
      continue;
    }
    for (std::int64_t k = i; k < i + kBlock; ++k) {
      to[k] = static_cast<To>(static_cast<std::int32_t>(from[k]));
    }
  }
  return i;
}

template <class T>
void fill(T* to, std::int64_t n, T value, bool stream) {
  constexpr std::int64_t kLine = kLineBytes / sizeof(T);
  alignas(kLineBytes) T line[kLine];
  for (T& element : line) element = value;
  std::int64_t i = 0;
  for (; stream && i + kLine <= n; i += kLine) stream_line(to + i, line);
  for (; i < n; ++i) to[i] = value;
}

template <class To, class From>
void loop(const void*, std::int64_t n, char* const* pointers, const std::int64_t* strides,
          [[maybe_unused]] Reach reach) {
  [[maybe_unused]] const bool stream = reach.stream;
  if (strides[0] == sizeof(To) && strides[1] == sizeof(From)) {
    auto* __restrict to = reinterpret_cast<To*>(pointers[0]);
    const auto* __restrict from = reinterpret_cast<const From*>(pointers[1]);
    std::int64_t i = 0;
    if constexpr (std::is_same_v<To, From>) {
      constexpr std::int64_t kLine = kLineBytes / sizeof(To);
      for (; stream && i + kLine <= n; i += kLine) stream_line(to + i, from + i);
      for (; i < n; ++i) to[i] = from[i];
    } else {
      if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> &&
                    !std::is_same_v<To, bool> && !kConvertsToInt64) {
        i = convert_by_int32(from, n, to);
      }
      for (; i < n; ++i) to[i] = convert<To>(from[i]);
    }
    return;
  }
  if constexpr (std::is_same_v<To, From>) {
    if (strides[0] == sizeof(To) && strides[1] == -static_cast<std::int64_t>(sizeof(From))) {
      auto* __restrict to = reinterpret_cast<To*>(pointers[0]);
      const auto* __restrict from = reinterpret_cast<const From*>(pointers[1]);
      for (std::int64_t i = 0; i < n; ++i) to[i] = from[-i];
      return;
    }
  }
  if (strides[0] == sizeof(To) && strides[1] == 0) {
    const From from = *reinterpret_cast<const From*>(pointers[1]);
    if constexpr (std::is_same_v<To, From>) {
      return fill(reinterpret_cast<To*>(pointers[0]), n, from, stream);
    } else {
      return fill(reinterpret_cast<To*>(pointers[0]), n, convert<To>(from), stream);
    }
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const From from = *reinterpret_cast<const From*>(pointers[1] + i * strides[1]);
    auto* to = reinterpret_cast<To*>(pointers[0] + i * strides[0]);
    if constexpr (std::is_same_v<To, From>) {
      *to = from;
    } else {
      *to = convert<To>(from);
    }
  }
}

/// By pieces of so many bytes, the last of which overlaps the one before; false if rows are
/// shorter.
template <std::int64_t kPiece>
bool copy_by_pieces(char* to, std::int64_t to_step, const char* from, std::int64_t from_step,
                    std::int64_t bytes, std::int64_t rows) {
  if (bytes < kPiece) return false;
  const std::int64_t last = bytes - kPiece;
  for (; rows > 0; --rows, to += to_step, from += from_step) {
    for (std::int64_t k = 0; k < last; k += kPiece) __builtin_memcpy(to + k, from + k, kPiece);
    __builtin_memcpy(to + last, from + last, kPiece);
  }
  return true;
}

void copy_rows(char* to, std::int64_t to_step, const char* from, std::int64_t from_step,
               std::int64_t bytes, std::int64_t rows) {
  copy_by_pieces<64>(to, to_step, from, from_step, bytes, rows) ||
      copy_by_pieces<16>(to, to_step, from, from_step, bytes, rows) ||
      copy_by_pieces<4>(to, to_step, from, from_step, bytes, rows) ||
      copy_by_pieces<1>(to, to_step, from, from_step, bytes, rows);
}

template <class T>
void repeat(const char* from, std::int64_t from_step, std::int64_t rows, std::int64_t length,
            std::byte* to) {
  constexpr std::int64_t kLine = kLineBytes / sizeof(T);
  typedef T Line __attribute__((vector_size(kLineBytes)));
  for (std::int64_t r = 0; r < rows; ++r, from += from_step) {
    const Line line = Line{} + *reinterpret_cast<const T*>(from);
    for (std::int64_t k = 0; k < length; k += kLine) {
      __builtin_memcpy(to + k * sizeof(T), &line, sizeof line);
    }
    to += length * sizeof(T);
  }
}

void repeat_rows(const char* from, std::int64_t from_step, std::int64_t size, std::int64_t rows,
                 std::int64_t length, std::byte* to) {
  switch (size) {
    case 1: return repeat<std::uint8_t>(from, from_step, rows, length, to);
    case 2: return repeat<std::uint16_t>(from, from_step, rows, length, to);
    case 4: return repeat<std::uint32_t>(from, from_step, rows, length, to);
    default: return repeat<std::uint64_t>(from, from_step, rows, length, to);
  }
}

template <class From>
constexpr ConvertRow row() {
  return {{loop<float, From>, loop<double, From>, loop<std::int32_t, From>,
           loop<std::int64_t, From>, loop<std::uint8_t, From>, loop<bool, From>, loop<Half, From>,
           loop<BFloat16, From>, loop<std::int8_t, From>, loop<std::int16_t, From>}};
}

}  // namespace

extern const ConvertTable convert_kernels = {
    {row<float>(), row<double>(), row<std::int32_t>(), row<std::int64_t>(), row<std::uint8_t>(),
     row<bool>(), row<Half>(), row<BFloat16>(), row<std::int8_t>(), row<std::int16_t>()},
    copy_rows,
    repeat_rows};

}  // namespace facula::cpu::FACULA_ISA
