// The text of programs, compiled. emitted_source_test.py runs tests of expressions twice: first
// they write the text, as functions, to the file FACULA_EMITTED_SOURCE; then they compare what the
// library FACULA_EMITTED_LIBRARY, made of that file, computes with the instructions.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "ops/schema/symbolic.h"

namespace facula::test {

inline const char* emitted_source() { return std::getenv("FACULA_EMITTED_SOURCE"); }
inline const char* emitted_library() { return std::getenv("FACULA_EMITTED_LIBRARY"); }

/// Adds to the source.
inline void emit(const std::string& text) {
  static std::ofstream file = [] {
    std::ofstream result(emitted_source());
    result << "#include <type_traits>\n\n#include \"ops/schema/scalar.h\"\n";
    return result;
  }();
  ASSERT_TRUE(file << text << std::flush) << "cannot write " << emitted_source();
}

using Emitted = double (*)(const double* inputs);

/// A function of the library; null if there is none.
inline Emitted emitted(const std::string& name) {
  static void* const library = dlopen(emitted_library(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return nullptr;
  return reinterpret_cast<Emitted>(dlsym(library, ("emitted_" + name).c_str()));
}

/// The same bits, except for those of NaN.
inline bool identical(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// What C++ wants to know about the inputs and the result of a program.
struct Kinds {
  std::vector<bool> masks;  ///< for each input, whether it is one
  bool predicate = false;   ///< the result is a mask
};

using Points = std::vector<std::vector<double>>;

/// Special values, some others, and what lies about the program's constants, where it may decide.
inline std::vector<double> numbers_for(const scalar::SymbolicProgram& program) {
  using Limits = std::numeric_limits<double>;
  std::vector<double> numbers = {
      NAN,  INFINITY, -INFINITY, 0.0, -0.0,   Limits::denorm_min(), -Limits::denorm_min(),
      0.75, -1,       2.5,       -19, 123.25, Limits::max(),        -Limits::min()};
  for (const auto& instruction : program.instructions()) {
    const double constant = instruction.value;
    if (instruction.op != scalar::SymbolicOp::constant) continue;
    numbers.insert(numbers.end(), {std::nextafter(constant, -INFINITY), constant,
                                   std::nextafter(constant, INFINITY)});
  }
  return numbers;
}

/// Every choice of them as inputs; of masks 0 and 1.
inline Points special_points(const scalar::SymbolicProgram& program,
                             const std::vector<bool>& masks) {
  const std::vector<double> numbers = numbers_for(program), truths = {0, 1};
  Points points = {{}};
  for (const bool mask : masks) {
    Points longer;
    for (const std::vector<double>& point : points) {
      for (const double value : mask ? truths : numbers) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    }
    points = std::move(longer);
  }
  return points;
}

/// The function of the library gives what the program gives.
inline testing::AssertionResult agree(const std::string& name,
                                      const scalar::SymbolicProgram& program,
                                      const Points& points) {
  const Emitted function = emitted(name);
  if (!function) return testing::AssertionFailure() << name << " is missing: " << dlerror();
  for (const std::vector<double>& x : points) {
    const double want = program.evaluate(x), got = function(x.data());
    if (identical(got, want)) continue;
    return testing::AssertionFailure()
           << name << fmt::format("({}) = {}, not {}:\n", fmt::join(x, ", "), got, want)
           << program.source();
  }
  return testing::AssertionSuccess();
}

/// The texts of one test, functions called `name`_0, `name`_1, ...
class Texts {
 public:
  explicit Texts(std::string name) : name_(std::move(name)) {}

  /// The text of `program` gives what its instructions give, at `points` and special ones.
  void expect(const scalar::SymbolicProgram& program, const Kinds& kinds, Points points = {}) {
    if (!emitted_source() && !emitted_library()) return;
    const std::string source = program.source();
    const auto found = std::find(sources_.begin(), sources_.end(), source);
    const std::string name = fmt::format("{}_{}", name_, found - sources_.begin());
    if (found == sources_.end()) {
      sources_.push_back(source);
      if (emitted_source()) emit(function(name, source, kinds));
    }
    if (!emitted_library()) return;
    const Points special = special_points(program, kinds.masks);
    points.insert(points.end(), special.begin(), special.end());
    EXPECT_TRUE(agree(name, program, points));
  }

 private:
  /// For T = double. That numbers of the text stay T, the compiler checks with float.
  static std::string function(const std::string& name, const std::string& source,
                              const Kinds& kinds) {
    std::string parameters, floats, elements;
    for (std::size_t i = 0; i < kinds.masks.size(); ++i) {
      const char* comma = i == 0 ? "" : ", ";
      parameters += fmt::format("{}{} x{}", comma, kinds.masks[i] ? "bool" : "T", i);
      floats += fmt::format("{}{}", comma, kinds.masks[i] ? "true" : "1.0f");
      elements += fmt::format("{}x[{}]{}", comma, i, kinds.masks[i] ? " != 0" : "");
    }
    return fmt::format(
        "namespace facula::scalar {{\n"
        "template <class T>\n{0} {1}({2}) {{\n{3}}}\n"
        "static_assert(std::is_same_v<decltype({1}<float>({4})), {5}>);\n"
        "extern \"C\" double emitted_{1}(const double* x) {{ return {1}<double>({6}); }}\n"
        "}}\n",
        kinds.predicate ? "bool" : "auto", name, parameters, source, floats,
        kinds.predicate ? "bool" : "float", elements);
  }

  std::string name_;
  std::vector<std::string> sources_;
};

}  // namespace facula::test
