#include "ops/schema/attrs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <new>
#include <vector>

namespace facula {
namespace {

/// A field of each kind; there is padding between some.
struct EveryKind {
  double floating = 0.5;
  bool boolean = true;
  std::int64_t integer = -3;
  DType dtype = kInt64;
  Dims dims = {2, 3};
  ShortString string = std::string_view("mean");
  std::optional<double> optional_floating = 1.5;
  std::optional<std::int64_t> optional_integer;
  std::optional<DType> optional_dtype = kBool;
};

constexpr AttrField kFields[] = {
    {"floating", AttrKind::floating, offsetof(EveryKind, floating)},
    {"boolean", AttrKind::boolean, offsetof(EveryKind, boolean)},
    {"integer", AttrKind::integer, offsetof(EveryKind, integer)},
    {"dtype", AttrKind::dtype, offsetof(EveryKind, dtype)},
    {"dims", AttrKind::dims, offsetof(EveryKind, dims)},
    {"string", AttrKind::string, offsetof(EveryKind, string)},
    {"optional_floating", AttrKind::optional_floating, offsetof(EveryKind, optional_floating)},
    {"optional_integer", AttrKind::optional_integer, offsetof(EveryKind, optional_integer)},
    {"optional_dtype", AttrKind::optional_dtype, offsetof(EveryKind, optional_dtype)},
};
constexpr AttrSchema kSchema = {kFields, std::size(kFields), sizeof(EveryKind)};

TEST(Attrs, PrintEveryKind) {
  const EveryKind attrs;
  EXPECT_EQ(attrs_str(kSchema, &attrs),
            "floating=0.5, boolean=true, integer=-3, dtype=int64, dims=[2, 3], string=\"mean\", "
            "optional_floating=1.5, optional_integer=None, optional_dtype=bool");
}

TEST(Attrs, AreEqualWhateverLiesBetweenTheFields) {
  alignas(EveryKind) std::byte memory[2][sizeof(EveryKind)];
  std::memset(memory[0], 0, sizeof(EveryKind));
  std::memset(memory[1], 0xff, sizeof(EveryKind));
  const EveryKind* const a = new (memory[0]) EveryKind;
  const EveryKind* const b = new (memory[1]) EveryKind;
  EXPECT_TRUE(attrs_equal(kSchema, a, b));
  EXPECT_EQ(attrs_hash(kSchema, a), attrs_hash(kSchema, b));
}

TEST(Attrs, DifferInEveryField) {
  const std::vector<std::function<void(EveryKind&)>> changes = {
      [](EveryKind& a) { a.floating = -0.5; },
      [](EveryKind& a) { a.boolean = false; },
      [](EveryKind& a) { a.integer = 3; },
      [](EveryKind& a) { a.dtype = kInt32; },
      [](EveryKind& a) {
        a.dims = {3, 2};
      },
      [](EveryKind& a) {
        a.dims = {2, 3, 0};
      },
      [](EveryKind& a) { a.string = std::string_view("mea"); },
      [](EveryKind& a) { a.optional_floating.reset(); },
      [](EveryKind& a) { a.optional_floating = 2; },
      [](EveryKind& a) { a.optional_integer = 0; },
      [](EveryKind& a) { a.optional_dtype = kUInt8; },
  };
  const EveryKind original;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    EveryKind changed;
    changes[i](changed);
    EXPECT_FALSE(attrs_equal(kSchema, &original, &changed)) << "change " << i;
    EXPECT_NE(attrs_hash(kSchema, &original), attrs_hash(kSchema, &changed)) << "change " << i;
  }
}

}  // namespace
}  // namespace facula
