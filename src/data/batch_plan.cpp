#include "data/batch_plan.h"

#include <algorithm>

#include "base/check.h"

namespace facula::data {
namespace {

const std::vector<std::int64_t>& positions_of(const BatchPlan& plan) {
  return plan.positions.empty() ? plan.begins : plan.positions;
}

std::int64_t length(const std::vector<std::int64_t>& values) {
  return static_cast<std::int64_t>(values.size());
}

}  // namespace

void check_plan(const BatchPlan& plan) {
  check<ValueError>(
      !plan.begins.empty() && plan.begins.front() == 0 &&
          std::is_sorted(plan.begins.begin(), plan.begins.end()) &&
          plan.begins.back() <= length(plan.indices),
      "DataLoader: the batch sampler's {} begins do not divide its {} indices into batches; they "
      "start at 0, ascend, and end with the end of the last batch",
      plan.begins.size(), plan.indices.size());
  check<ValueError>((plan.positions.empty() || plan.positions.size() == plan.begins.size()) &&
                        (plan.offsets.empty() || length(plan.offsets) == plan.size()),
                    "DataLoader: the batch sampler gives {} positions and {} offsets for {} "
                    "batches, expected one position more than batches or none, and as many offsets "
                    "or none",
                    plan.positions.size(), plan.offsets.size(), plan.size());
}

std::int64_t offset_of(const BatchPlan& plan, std::int64_t batch) {
  return plan.offsets.empty() ? 0 : plan.offsets[static_cast<std::size_t>(batch)];
}

std::int64_t count_batches(std::int64_t samples, std::int64_t batch_size, bool drop_last) {
  return samples / batch_size + (!drop_last && samples % batch_size > 0 ? 1 : 0);
}

BatchPlan cut_into_batches(const std::vector<std::int64_t>& order, std::int64_t skipped,
                           std::int64_t batch_size, bool drop_last) {
  const std::int64_t samples = length(order) - skipped;
  const std::int64_t used = drop_last ? samples - samples % batch_size : samples;
  BatchPlan plan;
  plan.indices.assign(order.end() - samples, order.end() - samples + used);
  plan.positions = {skipped};
  for (std::int64_t end = 0; end < used;) {
    end += std::min(batch_size, used - end);
    plan.begins.push_back(end);
    plan.positions.push_back(skipped + end);
  }
  return plan;
}

BatchPlan without_first(const BatchPlan& plan, std::int64_t samples) {
  const auto& positions = positions_of(plan);
  const auto found = std::find(positions.begin(), positions.end(), samples);
  check<ValueError>(found != positions.end(),
                    "DataLoader: the saved position, after {} samples of the epoch, is not between "
                    "two batches of this batch sampler; use the one that was saved with",
                    samples);
  const auto batch = static_cast<std::size_t>(found - positions.begin());
  const std::int64_t first = plan.begins[batch];
  BatchPlan rest;
  rest.indices.assign(plan.indices.begin() + first, plan.indices.end());
  rest.positions.assign(found, positions.end());
  if (!plan.offsets.empty()) {
    rest.offsets.assign(plan.offsets.begin() + (found - positions.begin()), plan.offsets.end());
  }
  rest.begins.clear();
  for (std::size_t b = batch; b < plan.begins.size(); ++b) {
    rest.begins.push_back(plan.begins[b] - first);
  }
  return rest;
}

BatchPlan share_of(const BatchPlan& plan, std::int64_t rank, std::int64_t world_size) {
  if (world_size == 1) return plan;
  BatchPlan share;
  share.positions = positions_of(plan);
  for (std::int64_t b = 0; b < plan.size(); ++b) {
    const std::int64_t begin = plan.begins[static_cast<std::size_t>(b)];
    const std::int64_t count = plan.begins[static_cast<std::size_t>(b) + 1] - begin;
    std::int64_t first = count * rank / world_size, last = count * (rank + 1) / world_size;
    if (count > 0 && count < world_size) {
      first = rank % count;
      last = first + 1;
    }
    share.indices.insert(share.indices.end(), plan.indices.begin() + begin + first,
                         plan.indices.begin() + begin + last);
    share.begins.push_back(length(share.indices));
    share.offsets.push_back(offset_of(plan, b) + first);
  }
  return share;
}

}  // namespace facula::data
