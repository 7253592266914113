#include "benchmarks/kernels/kinds.h"

#include "benchmarks/kernels/problem.h"

namespace facula::kernels {

Tensor normal(IntList sizes) { return randn(sizes); }
Tensor positive(IntList sizes) { return rand(sizes) * 2 + 0.5; }

Tensor images(const Problem& problem, IntList sizes) {
  return empty(sizes).contiguous(problem.channels_last() ? kChannelsLast : kContiguous);
}

Tensor per_channel(std::int64_t channels) { return empty({channels}); }

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = [] {
    std::vector<Kind> kinds;
    for (auto family : {convolutions, products, batch_norms, pools, rows}) {
      for (Kind& kind : family()) kinds.push_back(std::move(kind));
    }
    return kinds;
  }();
  return all;
}

const Kind* find_kind(const std::string& op) {
  for (const Kind& kind : kinds()) {
    if (op == kind.op) return &kind;
  }
  return nullptr;
}

}  // namespace facula::kernels
