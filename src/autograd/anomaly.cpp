#include "autograd/anomaly.h"

#include <cxxabi.h>
#include <execinfo.h>

#include <cmath>
#include <cstdlib>
#include <memory>

#include "base/check.h"
#include "runtime/mode.h"
#include "runtime/module_path.h"

namespace facula::autograd {
namespace {

constexpr int kMaxFrames = 48;

/// One line per frame, symbol names demangled.
std::string backtrace_text() {
  void* frames[kMaxFrames];
  const int count = ::backtrace(frames, kMaxFrames);
  std::unique_ptr<char*, decltype(&std::free)> symbols(::backtrace_symbols(frames, count),
                                                       std::free);
  if (!symbols) return "  (no backtrace available)\n";
  std::string text;
  for (int i = 0; i < count; ++i) {
    std::string line = symbols.get()[i];
    const std::size_t open = line.find('('), plus = line.find('+', open);
    if (open != std::string::npos && plus != std::string::npos && plus > open + 1) {
      int status = 0;
      std::unique_ptr<char, decltype(&std::free)> name(
          abi::__cxa_demangle(line.substr(open + 1, plus - open - 1).c_str(), nullptr, nullptr,
                              &status),
          std::free);
      if (status == 0) line = name.get();
    }
    text += "  " + line + "\n";
  }
  return text;
}

}  // namespace

void remember_origin(Node& node) {
  const std::string path = runtime::module_path();
  extras_of(node).origin = fmt::format("forward call of {}{}:\n{}", node.name(),
                                       path.empty() ? "" : " in module " + path, backtrace_text());
}

std::string origin_of(const Node& node) {
  if (node.extras && !node.extras->origin.empty()) return node.extras->origin;
  return "(run the forward pass under AnomalyMode to see its origin)";
}

void check_gradients(Node& node, const Tensor* gradients) {
  runtime::ModeGuard no_grad(runtime::kNoGrad, runtime::kAnomaly);
  for (int i = 0; i < node.inputs; ++i) {
    const Tensor& gradient = gradients[i];
    if (!gradient.defined() || !gradient.is_floating_point()) continue;
    if (gradient.device() == kNull) continue;  // no elements
    for (double value : gradient.to_vector<double>()) {
      if (!std::isnan(value)) continue;
      fail<AutogradError>("anomaly: backward of {} returned a NaN gradient for input {}\n{}",
                          node.name(), i, origin_of(node));
    }
  }
}

}  // namespace facula::autograd
