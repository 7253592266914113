// Tensors as text, in PyTorch's format.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include <facula/tensor.h>

#include "core/tensor_impl.h"
#include "runtime/deferred.h"
#include "runtime/dispatch.h"
#include "runtime/mode.h"

namespace facula {
namespace {

constexpr int kPrecision = 4;
constexpr int kLineWidth = 80;
/// Larger tensors show only the first and last entries of every dimension.
constexpr std::int64_t kSummaryThreshold = 1000;
constexpr std::int64_t kEdgeItems = 3;

std::string format_fixed(double value, int precision) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}f}", value, precision);
}
std::string format_scientific(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}e}", value, kPrecision);
}

/// How all elements of one tensor are written, decided from those that are shown.
class Style {
 public:
  void include(double value) {
    if (value == 0 || !std::isfinite(value)) return;
    least_ = std::min(least_, std::abs(value));
    greatest_ = std::max(greatest_, std::abs(value));
    integral_ &= value == std::ceil(value);
    fixed_width_ = std::max(fixed_width_, format_fixed(value, kPrecision).size());
    integral_width_ = std::max(integral_width_, format_fixed(value, 0).size() + 1);
    scientific_width_ = std::max(scientific_width_, format_scientific(value).size());
  }
  void include(const std::string& text) { text_width_ = std::max(text_width_, text.size()); }

  std::string format(double value) const {
    if (scientific()) return padded(format_scientific(value));
    if (!integral_) return padded(format_fixed(value, kPrecision));
    return padded(format_fixed(value, 0) + (std::isfinite(value) ? "." : ""));
  }
  std::string padded(const std::string& text) const {
    return std::string(width() - std::min(width(), text.size()), ' ') + text;
  }
  std::size_t width() const {
    if (greatest_ == 0) return text_width_;
    return scientific() ? scientific_width_ : integral_ ? integral_width_ : fixed_width_;
  }

 private:
  bool scientific() const {
    return greatest_ != 0 &&
           (greatest_ / least_ > 1000 || greatest_ > 1e8 || (!integral_ && least_ < 1e-4));
  }

  double least_ = std::numeric_limits<double>::infinity();
  double greatest_ = 0;
  bool integral_ = true;
  std::size_t text_width_ = 1, fixed_width_ = 1, integral_width_ = 1, scientific_width_ = 1;
};

/// Writes the elements of a tensor in host memory.
class Printer {
 public:
  explicit Printer(const TensorImpl& impl)
      : impl_(impl), summarize_(impl.numel > kSummaryThreshold) {
    measure(0, 0);
  }

  std::string text(int indent) const { return text(0, 0, indent); }

 private:
  bool cut(int dim) const { return summarize_ && impl_.sizes[dim] > 2 * kEdgeItems; }

  /// Calls f(offset) for the entries of a dimension that are shown, gap() where some are left out.
  template <class F, class Gap>
  void for_shown(int dim, std::int64_t offset, F f, Gap gap) const {
    const std::int64_t size = impl_.sizes[dim];
    for (std::int64_t i = 0; i < size; ++i) {
      if (cut(dim) && i == kEdgeItems) {
        gap();
        i = size - kEdgeItems;
      }
      f(offset + i * impl_.strides[dim]);
    }
  }

  void measure(int dim, std::int64_t offset) {
    if (dim < impl_.dim) {
      for_shown(
          dim, offset, [&](std::int64_t entry) { measure(dim + 1, entry); }, [] {});
    } else if (facula::is_floating_point(impl_.dtype)) {
      style_.include(real(offset));
    } else {
      style_.include(integer(offset));
    }
  }

  std::string text(int dim, std::int64_t offset, int indent) const {
    if (dim == impl_.dim) return element(offset);
    if (dim == impl_.dim - 1) return vector(dim, offset, indent);
    std::vector<std::string> entries;
    for_shown(
        dim, offset,
        [&](std::int64_t entry) { entries.push_back(text(dim + 1, entry, indent + 1)); },
        [&] { entries.emplace_back("..."); });
    const std::string lines(static_cast<std::size_t>(impl_.dim - dim - 1), '\n');
    return join(entries, "," + lines + spaces(indent + 1));
  }

  std::string vector(int dim, std::int64_t offset, int indent) const {
    std::vector<std::string> elements;
    for_shown(
        dim, offset, [&](std::int64_t entry) { elements.push_back(element(entry)); },
        [&] { elements.emplace_back(" ..."); });
    const int room = (kLineWidth - indent) / (static_cast<int>(style_.width()) + 2);
    const auto per_line = static_cast<std::size_t>(std::max(1, room));
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < elements.size(); i += per_line) {
      const auto first = elements.begin() + static_cast<std::ptrdiff_t>(i);
      const auto count = static_cast<std::ptrdiff_t>(std::min(per_line, elements.size() - i));
      lines.push_back(fmt::format("{}", fmt::join(first, first + count, ", ")));
    }
    return join(lines, ",\n" + spaces(indent + 1));
  }

  static std::string spaces(int count) { return std::string(static_cast<std::size_t>(count), ' '); }
  static std::string join(const std::vector<std::string>& parts, const std::string& separator) {
    return fmt::format("[{}]", fmt::join(parts, separator));
  }

  std::string element(std::int64_t offset) const {
    return facula::is_floating_point(impl_.dtype) ? style_.format(real(offset))
                                                  : style_.padded(integer(offset));
  }

  double real(std::int64_t offset) const {
    return impl_.dtype == kFloat64 ? impl_.typed<double>()[offset] : impl_.typed<float>()[offset];
  }

  std::string integer(std::int64_t offset) const {
    switch (impl_.dtype) {
      case kBool: return impl_.typed<bool>()[offset] ? "True" : "False";
      case kInt64: return fmt::format("{}", impl_.typed<std::int64_t>()[offset]);
      case kInt32: return fmt::format("{}", impl_.typed<std::int32_t>()[offset]);
      case kInt16: return fmt::format("{}", impl_.typed<std::int16_t>()[offset]);
      case kInt8: return fmt::format("{}", int{impl_.typed<std::int8_t>()[offset]});
      default: return fmt::format("{}", int{impl_.typed<std::uint8_t>()[offset]});
    }
  }

  const TensorImpl& impl_;
  bool summarize_;
  Style style_;
};

/// Python's notation of a tuple.
std::string tuple(IntList sizes) {
  return sizes.size() == 1 ? fmt::format("({},)", sizes[0])
                           : fmt::format("({})", fmt::join(sizes.begin(), sizes.end(), ", "));
}

/// What follows the elements, in PyTorch's order.
std::vector<std::string> suffixes_of(const Tensor& tensor) {
  std::vector<std::string> suffixes;
  const DType dtype = tensor.dtype();
  const bool no_elements = tensor.numel() == 0 || tensor.device().is_null();
  if (!tensor.device().is_cpu())
    suffixes.push_back(fmt::format("device='{}'", tensor.device().str()));
  if (tensor.device().is_null() || (tensor.numel() == 0 && tensor.dim() != 1)) {
    suffixes.push_back("size=" + tuple(tensor.sizes()));
  }
  const bool evident =
      dtype == get_default_dtype() || (!no_elements && (dtype == kInt64 || dtype == kBool));
  if (!evident) suffixes.push_back(fmt::format("dtype=torch.{}", name_of(dtype)));
  if (!tensor.is_leaf() && runtime::hooks.history_name) {
    suffixes.push_back(fmt::format("grad_fn=<{}>", runtime::hooks.history_name(tensor)));
  } else if (tensor.requires_grad()) {
    suffixes.emplace_back("requires_grad=True");
  }
  return suffixes;
}

std::string elements_of(const Tensor& tensor, int indent) {
  if (tensor.device().is_null()) return "...";
  if (tensor.numel() == 0) return "[]";
  const bool half = tensor.dtype() == kFloat16 || tensor.dtype() == kBFloat16;
  const Tensor host = half ? tensor.cpu().to(kFloat32) : tensor.cpu();
  runtime::settle(host);
  return Printer(*host.impl()).text(indent);
}

}  // namespace

std::string Tensor::str() const {
  if (!defined()) return "tensor(undefined)";
  const runtime::ModeGuard no_grad(runtime::kNoGrad);
  const std::string prefix = "tensor(";
  const int indent = static_cast<int>(prefix.size());
  std::string text = prefix + elements_of(*this, indent);
  const std::size_t line_break = text.rfind('\n');
  std::size_t column =
      line_break == std::string::npos ? text.size() + 2 : text.size() - line_break + 1;
  for (const std::string& suffix : suffixes_of(*this)) {
    if (column + suffix.size() + 2 > kLineWidth) {
      text += ",\n" + std::string(prefix.size(), ' ') + suffix;
      column = prefix.size() + suffix.size();
    } else {
      text += ", " + suffix;
      column += suffix.size() + 2;
    }
  }
  return text + ")";
}

std::ostream& operator<<(std::ostream& stream, IntList sizes) { return stream << sizes.str(); }
std::ostream& operator<<(std::ostream& stream, DType dtype) { return stream << name_of(dtype); }
std::ostream& operator<<(std::ostream& stream, Device device) { return stream << device.str(); }
std::ostream& operator<<(std::ostream& stream, const Scalar& value) {
  return stream << value.str();
}

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) {
  return stream << tensor.str();
}

}  // namespace facula
