// `facula diff`: how the weights in two files differ.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <facula/json_line.h>
#include <facula/model_file.h>

#include "cli/commands.h"

namespace facula::cli {
namespace {

/// How two tensors of one shape and dtype differ.
struct Difference {
  std::int64_t elements = 0;  // whose bits differ
  double absolute = 0, relative = 0;
  std::uint64_t ulps = 0;  // of floating dtypes
  bool nan = false;        // a NaN stands against a number
};

/// The number of floating-point numbers between two, by their bits; 0 between +0 and -0.
template <class Unsigned>
std::uint64_t ulps_between(Unsigned a, Unsigned b) {
  constexpr Unsigned kSign = Unsigned{1} << (8 * sizeof(Unsigned) - 1);
  const auto ordered = [](Unsigned bits) {
    const auto magnitude = static_cast<std::int64_t>(bits & static_cast<Unsigned>(~kSign));
    return bits & kSign ? -magnitude : magnitude;
  };
  const std::int64_t x = ordered(a), y = ordered(b);
  return static_cast<std::uint64_t>(std::max(x, y)) - static_cast<std::uint64_t>(std::min(x, y));
}

/// Of two integers with these bits.
std::uint64_t far_apart(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b) ? b - a : a - b;
}

template <class Unsigned>
Difference compare_bits(const Tensor& a, const Tensor& b) {
  const auto* x = static_cast<const Unsigned*>(a.raw_data());
  const auto* y = static_cast<const Unsigned*>(b.raw_data());
  Difference result;
  const std::int64_t count = a.numel();
  if (count == 0 || std::memcmp(x, y, static_cast<std::size_t>(a.nbytes())) == 0) return result;
  const std::vector<double> from = a.to_vector<double>(), to = b.to_vector<double>();
  for (std::int64_t i = 0; i < count; ++i) {
    if (x[i] == y[i]) continue;
    ++result.elements;
    const double u = from[static_cast<std::size_t>(i)], v = to[static_cast<std::size_t>(i)];
    if (std::isnan(u) || std::isnan(v)) {
      result.nan |= std::isnan(u) != std::isnan(v);
      continue;
    }
    double distance = u == v ? 0 : std::abs(u - v);
    if constexpr (sizeof(Unsigned) == 8) {
      // Doubles beyond 2^53 are rounded by more than neighbours differ.
      if (a.dtype() == kInt64) distance = static_cast<double>(far_apart(x[i], y[i]));
    }
    const double scale = std::max(std::abs(u), std::abs(v));
    result.absolute = std::max(result.absolute, distance);
    if (distance > 0) {
      // Of an infinite distance no finite share would be true.
      result.relative =
          std::max(result.relative, std::isinf(distance) ? distance : distance / scale);
    }
    if (a.is_floating_point()) result.ulps = std::max(result.ulps, ulps_between(x[i], y[i]));
  }
  return result;
}

Difference compare(const Tensor& first, const Tensor& second) {
  const Tensor a = first.contiguous(), b = second.contiguous();
  switch (a.element_size()) {
    case 1: return compare_bits<std::uint8_t>(a, b);
    case 2: return compare_bits<std::uint16_t>(a, b);
    case 4: return compare_bits<std::uint32_t>(a, b);
    default: return compare_bits<std::uint64_t>(a, b);
  }
}

/// The tensors of a file in the order of their names.
std::vector<std::pair<std::string, Tensor>> tensors_of(const std::string& path) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  const StateDict state = load_weights(path);
  for (const auto& [name, value] : state.flat()) {
    const auto* tensor = value->get_if<Tensor>();
    if (tensor && tensor->defined()) tensors.emplace_back(name, *tensor);
  }
  std::ranges::sort(tensors, {}, &std::pair<std::string, Tensor>::first);
  return tensors;
}

/// Collects lines of text or objects of JSON, one for each tensor that differs.
class Report {
 public:
  explicit Report(bool json) : json_(json) {}

  void equal() { ++equal_; }

  void only_in(const std::string& file, const char* key, const std::string& name) {
    add(fmt::format("only in {}: {}", file, json_string(name)),
        JsonLine().add("name", name).add("only_in", key));
  }

  void other_kind(const std::string& name, const Tensor& a, const Tensor& b) {
    const auto kind = [](const Tensor& t) {
      return fmt::format("{} {}", name_of(t.dtype()), t.sizes().str());
    };
    add(fmt::format("{}: {} against {}", json_string(name), kind(a), kind(b)),
        JsonLine().add("name", name).add("a", kind(a)).add("b", kind(b)));
  }

  void values(const std::string& name, const Tensor& a, const Difference& d) {
    std::string line =
        fmt::format("{}: {} of {} elements differ, by at most {:.3g}, relative {:.3g}",
                    json_string(name), d.elements, a.numel(), d.absolute, d.relative);
    JsonLine fields;
    fields.add("name", name)
        .add("elements", d.elements)
        .add("of", a.numel())
        .add("max_abs", d.absolute)
        .add("max_rel", d.relative);
    if (a.is_floating_point()) {
      line += fmt::format(", {} ULP", d.ulps);
      fields.add("max_ulp", d.ulps).add("nan", d.nan);
    }
    if (d.nan) line += "; NaN against a number";
    add(line, fields);
  }

  /// Prints everything; true if nothing differs.
  bool finish() const {
    if (json_) {
      std::string objects;
      for (const std::string& line : lines_) {
        if (!objects.empty()) objects += ',';
        objects += line;
      }
      fmt::print("{{\"equal\":{},\"equal_tensors\":{},\"different\":[{}]}}\n", lines_.empty(),
                 equal_, objects);
    } else {
      for (const std::string& line : lines_) fmt::print("{}\n", line);
      fmt::print("{} tensors equal in all bits, {} differ\n", equal_, lines_.size());
    }
    return lines_.empty();
  }

 private:
  void add(std::string line, const JsonLine& fields) {
    lines_.push_back(json_ ? fields.str() : std::move(line));
  }

  bool json_;
  std::size_t equal_ = 0;
  std::vector<std::string> lines_;
};

bool compare_files(const DiffOptions& options) {
  const auto a = tensors_of(options.a), b = tensors_of(options.b);
  Report report(options.json);
  auto x = a.begin();
  auto y = b.begin();
  while (x != a.end() || y != b.end()) {
    if (y == b.end() || (x != a.end() && x->first < y->first)) {
      report.only_in(options.a, "a", (x++)->first);
    } else if (x == a.end() || y->first < x->first) {
      report.only_in(options.b, "b", (y++)->first);
    } else {
      const Tensor &first = x->second, &second = y->second;
      if (first.dtype() != second.dtype() || first.sizes().vec() != second.sizes().vec()) {
        report.other_kind(x->first, first, second);
      } else if (const Difference found = compare(first, second); found.elements > 0) {
        report.values(x->first, first, found);
      } else {
        report.equal();
      }
      ++x, ++y;
    }
  }
  return report.finish();
}

}  // namespace

int run_diff(const DiffOptions& options) {
  try {
    return compare_files(options) ? 0 : 1;
  } catch (const std::exception& error) {  // also what printing throws
    throw UsageError(error.what());        // status 2: 1 says that the files differ
  }
}

}  // namespace facula::cli
