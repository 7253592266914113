#include "runtime/verbose.h"

#include <chrono>

#include "base/log.h"

namespace facula::runtime {

void run_verbosely(const Implementation& implementation, const KernelArgs& args) {
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
  log_info("{} {} {{{}}} {} {:.4f} ms", args.call.op.name, problem,
           attrs_str(args.call.op.attrs, args.call.attributes), implementation.name,
           elapsed.count());
}

}  // namespace facula::runtime
