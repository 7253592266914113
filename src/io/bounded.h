// Reading binary formats from untrusted bytes without ever leaving them.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <facula/json_line.h>

#include "base/check.h"

namespace facula::io {

/// A cursor over bytes that somebody else owns. Every access is checked; a read that does not fit
/// throws an IoError naming the source, what was being read, where, and how many bytes were there,
/// and leaves the cursor where it was.
class BoundedReader {
 public:
  /// `source` names the bytes in messages, normally the file's path.
  BoundedReader(std::span<const uint8_t> bytes, std::string source)
      : bytes_(bytes), source_(std::move(source)) {}

  size_t offset() const { return offset_; }
  size_t remaining() const { return bytes_.size() - offset_; }
  const std::string& source() const { return source_; }

  uint8_t u8(std::string_view what) { return take(1, what)[0]; }
  uint16_t u16_be(std::string_view what) { return integer<uint16_t, std::endian::big>(what); }
  uint16_t u16_le(std::string_view what) { return integer<uint16_t, std::endian::little>(what); }
  uint32_t u32_be(std::string_view what) { return integer<uint32_t, std::endian::big>(what); }
  uint32_t u32_le(std::string_view what) { return integer<uint32_t, std::endian::little>(what); }
  uint64_t u64_be(std::string_view what) { return integer<uint64_t, std::endian::big>(what); }
  uint64_t u64_le(std::string_view what) { return integer<uint64_t, std::endian::little>(what); }

  void skip(uint64_t count, std::string_view what) { take(count, what); }

  /// The next `count` bytes, which the cursor passes.
  std::span<const uint8_t> take(uint64_t count, std::string_view what) {
    const auto taken = at(offset_, count, what);
    offset_ += taken.size();
    return taken;
  }

  /// `count` bytes from `offset`, wherever the cursor is; it does not move.
  std::span<const uint8_t> at(uint64_t offset, uint64_t count, std::string_view what) const {
    // Compared by subtraction: offset + count may overflow.
    const uint64_t available = offset <= bytes_.size() ? bytes_.size() - offset : 0;
    check<IoError>(offset <= bytes_.size() && count <= available,
                   "{}: cannot read {} at offset {}: it takes {} bytes, {} are there; the file is "
                   "truncated or damaged, get it again",
                   source_, what, offset, count, available);
    return bytes_.subspan(static_cast<size_t>(offset), static_cast<size_t>(count));
  }

 private:
  template <std::unsigned_integral T, std::endian order>
  T integer(std::string_view what) {
    const auto bytes = take(sizeof(T), what);
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      const size_t significance = order == std::endian::little ? i : sizeof(T) - 1 - i;
      value |= uint64_t{bytes[i]} << (8 * significance);
    }
    return static_cast<T>(value);
  }

  std::span<const uint8_t> bytes_;
  std::string source_;
  size_t offset_ = 0;
};

/// A name from a file, made safe and short for messages.
inline std::string quote_name(std::string_view name) {
  constexpr size_t kLongest = 100;
  return json_string(name.substr(0, kLongest)) + (name.size() > kLongest ? "..." : "");
}

/// What a parser may still allocate for things whose number a few bytes of a file can raise.
class MemoryBudget {
 public:
  MemoryBudget(uint64_t bytes, std::string source) : left_(bytes), source_(std::move(source)) {}

  /// Throws IoError if that is too much. Called before the memory is allocated.
  void charge(uint64_t bytes) {
    check<IoError>(bytes <= left_,
                   "{}: its content would take far more memory than its size justifies; unless it "
                   "is made of very many tiny tensors, which should be joined, the file is damaged "
                   "or malicious, refuse it",
                   source_);
    left_ -= bytes;
  }
  uint64_t left() const { return left_; }

 private:
  uint64_t left_;
  std::string source_;
};

}  // namespace facula::io
