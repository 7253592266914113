#include "runtime/verbose.h"

#include <chrono>
#include <utility>

#include "base/log.h"

namespace facula::runtime {

namespace {

/// Multiplications of a convolution or matrix product done directly; 0 for other ops.
double multiplications(const KernelArgs& args) {
  auto numel = [](const Tensor& tensor) { return static_cast<double>(tensor.numel()); };
  auto size = [](const Tensor& tensor, int d) { return static_cast<double>(tensor.size(d)); };
  if (args.output_count == 0 || args.out().numel() == 0) return 0;
  switch (args.call.op.id) {
    case OpId::conv2d:
    case OpId::conv2d_fused: return numel(args.out()) * numel(args.in(1)) / size(args.in(1), 0);
    case OpId::conv2d_backward_input:
    case OpId::conv2d_backward_input_fused:
      return numel(args.in(0)) * numel(args.in(1)) / size(args.in(1), 0);
    case OpId::conv2d_backward_weight:
      return numel(args.in(0)) * numel(args.out()) / size(args.out(), 0);
    case OpId::mm:
    case OpId::bmm:
    case OpId::linear:
    case OpId::linear_fused: return numel(args.out()) * size(args.in(0), -1);
    default: return 0;
  }
}

/// GFLOP/s and its share of the peak of what multiplies, GB/s of everything else: inputs and
/// results once each.
std::string rate(const KernelArgs& args, double ms) {
  if (const double products = multiplications(args); products > 0) {
    const double gflops = 2 * products / ms * 1e-6;
    const Tensor& out = args.out();
    // A vector holds half as many float64; what integers could reach is not measured.
    const double peak = out.is_floating_point()
                            ? peak_gflops(out.device().type) * 4 / double(size_of(out.dtype()))
                            : 0;
    const std::string share =
        peak > 0 ? fmt::format(", {:.0f} % of peak", 100 * gflops / peak) : "";
    return fmt::format("{:.1f} GFLOP/s{}", gflops, share);
  }
  double bytes = 0;
  for (std::uint32_t i = 0; i < args.call.count; ++i) {
    if (args.has(i)) bytes += static_cast<double>(args.in(i).nbytes());
  }
  for (std::size_t i = 0; i < args.output_count; ++i) {
    bytes += static_cast<double>(args.out(i).nbytes());
  }
  return fmt::format("{:.2f} GB/s", bytes / ms * 1e-6);
}

std::string refusals(const Implementation& implementation, const std::vector<Implementation>& list,
                     const KernelArgs& args) {
  std::string text;
  for (const Implementation& other : list) {
    if (&other == &implementation) break;
    const Refusal reason = other.refuse ? other.refuse(args) : nullptr;
    if (!reason) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "; refused by " : ", ", other.name, reason);
  }
  return text;
}

/// The op whose implementation runs on this thread, and may call others.
thread_local constinit const char* running = nullptr;

class Running {
 public:
  explicit Running(const char* op) : caller(std::exchange(running, op)) {}
  ~Running() { running = caller; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  const char* const caller;
};

}  // namespace

void run_verbosely(const Implementation& implementation, const std::vector<Implementation>& list,
                   const KernelArgs& args) {
  const std::string reasons = refusals(implementation, list, args);
  const Running own(args.call.op.name);
  const auto start = std::chrono::steady_clock::now();
  implementation.run(args);
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  std::string problem;
  for (std::uint32_t i = 0; i < args.call.count; ++i) {
    if (!args.has(i)) continue;
    problem += fmt::format("{}{}{}", problem.empty() ? "" : " ", name_of(args.in(i).dtype()),
                           args.in(i).sizes().str());
  }
  const std::string whole = own.caller ? fmt::format("; part of {}", own.caller) : "";
  log_info("{} {} {{{}}} {}: {:.4f} ms, {}{}{}", args.call.op.name, problem,
           attrs_str(args.call.op.attrs, args.call.attributes), implementation.name,
           elapsed.count(), rate(args, elapsed.count()), reasons, whole);
}

}  // namespace facula::runtime
