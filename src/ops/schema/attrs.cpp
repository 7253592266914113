#include "ops/schema/attrs.h"

#include <fmt/format.h>

#include <bit>

namespace facula {
namespace {

template <class T>
const T& at(const void* attrs, const AttrField& field) {
  return *reinterpret_cast<const T*>(static_cast<const std::byte*>(attrs) + field.offset);
}

/// Calls `visit` with the field's value in its C++ type.
template <class Visitor>
auto visit_field(const void* attrs, const AttrField& field, Visitor&& visit) {
  switch (field.kind) {
    case AttrKind::floating: return visit(at<double>(attrs, field));
    case AttrKind::integer: return visit(at<std::int64_t>(attrs, field));
    case AttrKind::boolean: return visit(at<bool>(attrs, field));
    case AttrKind::dims: return visit(at<Dims>(attrs, field));
    case AttrKind::dtype: return visit(at<DType>(attrs, field));
    case AttrKind::string: return visit(at<ShortString>(attrs, field));
    case AttrKind::optional_floating: return visit(at<std::optional<double>>(attrs, field));
    case AttrKind::optional_integer: return visit(at<std::optional<std::int64_t>>(attrs, field));
    case AttrKind::optional_dtype: return visit(at<std::optional<DType>>(attrs, field));
  }
  return visit(at<bool>(attrs, field));
}

constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccd;
}

struct Hasher {
  std::uint64_t hash;

  void operator()(double value) { hash = mix(hash, std::bit_cast<std::uint64_t>(value)); }
  void operator()(std::int64_t value) { hash = mix(hash, static_cast<std::uint64_t>(value)); }
  void operator()(bool value) { hash = mix(hash, value); }
  void operator()(DType value) { hash = mix(hash, static_cast<std::uint64_t>(value)); }
  void operator()(const Dims& value) {
    hash = mix(hash, static_cast<std::uint64_t>(value.size()));
    for (std::int64_t entry : value) (*this)(entry);
  }
  void operator()(const ShortString& value) {
    for (char c : std::string_view(value)) hash = mix(hash, static_cast<unsigned char>(c));
  }
  template <class T>
  void operator()(const std::optional<T>& value) {
    hash = mix(hash, value.has_value());
    if (value) (*this)(*value);
  }
};

struct Printer {
  std::string operator()(double value) { return fmt::format("{}", value); }
  std::string operator()(std::int64_t value) { return fmt::format("{}", value); }
  std::string operator()(bool value) { return value ? "true" : "false"; }
  std::string operator()(DType value) { return name_of(value); }
  std::string operator()(const Dims& value) { return value.str(); }
  std::string operator()(const ShortString& value) {
    return fmt::format("\"{}\"", std::string_view(value));
  }
  template <class T>
  std::string operator()(const std::optional<T>& value) {
    return value ? (*this)(*value) : "None";
  }
};

}  // namespace

bool attrs_equal(const AttrSchema& schema, const void* a, const void* b) {
  for (int i = 0; i < schema.count; ++i) {
    const AttrField& field = schema.fields[i];
    const bool equal =
        visit_field(a, field, [&]<class T>(const T& value) { return value == at<T>(b, field); });
    if (!equal) return false;
  }
  return true;
}

std::uint64_t attrs_hash(const AttrSchema& schema, const void* attrs) {
  Hasher hasher{schema.count};
  for (int i = 0; i < schema.count; ++i) visit_field(attrs, schema.fields[i], hasher);
  return hasher.hash;
}

std::string attrs_str(const AttrSchema& schema, const void* attrs) {
  std::string text;
  for (int i = 0; i < schema.count; ++i) {
    if (i > 0) text += ", ";
    text += fmt::format("{}={}", schema.fields[i].name,
                        visit_field(attrs, schema.fields[i], Printer{}));
  }
  return text;
}

}  // namespace facula
