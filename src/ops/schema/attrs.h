// Attributes of an op call: a plain struct generated from the op's signature line, with a field
// table from which equality, hashing and printing follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include <facula/dims.h>
#include <facula/dtype.h>

namespace facula {

/// A trivially copyable string for enumerated attributes ("mean", "none").
struct ShortString {
  static constexpr std::size_t kCapacity = 23;
  char text[kCapacity + 1] = {};

  constexpr ShortString() = default;
  /// Longer text is cut; op rules compare against known names and refuse the rest.
  constexpr ShortString(std::string_view s) {
    for (std::size_t i = 0; i < s.size() && i < kCapacity; ++i) text[i] = s[i];
  }
  constexpr operator std::string_view() const { return text; }
  friend constexpr bool operator==(const ShortString& a, const ShortString& b) {
    return std::string_view(a) == std::string_view(b);
  }
  friend constexpr bool operator==(const ShortString& a, const char* b) {
    return std::string_view(a) == b;
  }
};

enum class AttrKind : std::uint8_t {
  floating,           ///< double
  integer,            ///< std::int64_t
  boolean,            ///< bool
  dims,               ///< Dims
  dtype,              ///< DType
  string,             ///< ShortString
  optional_floating,  ///< std::optional<double>
  optional_integer,   ///< std::optional<std::int64_t>
  optional_dtype,     ///< std::optional<DType>
};

struct AttrField {
  const char* name;
  AttrKind kind;
  std::uint16_t offset;
};

/// The field table of one op's attribute struct.
struct AttrSchema {
  const AttrField* fields = nullptr;
  std::uint16_t count = 0;
  std::uint16_t bytes = 0;
};

bool attrs_equal(const AttrSchema& schema, const void* a, const void* b);
std::uint64_t attrs_hash(const AttrSchema& schema, const void* attrs);
/// "beta=1, threshold=20"
std::string attrs_str(const AttrSchema& schema, const void* attrs);

}  // namespace facula
