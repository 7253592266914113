#include <algorithm>
#include <cmath>
#include <numeric>

#include <facula/data/sampler.h>

#include "base/check.h"
#include "data/batch_plan.h"
#include "data/random_choice.h"

namespace facula::data {
namespace {

/// Uniform on (0, 1), 53 bits.
double uniform(std::uint64_t seed, std::int64_t epoch, std::int64_t i) {
  const PhiloxBlock block = random_block(seed, Purpose::weighted, epoch, i);
  const std::uint64_t bits = std::uint64_t{block.word[0]} << 21 | block.word[1] >> 11;
  return (static_cast<double>(bits) + 0.5) * 0x1p-53;
}

std::int64_t checked_size(std::int64_t size, const char* sampler) {
  check<ValueError>(size >= 0, "{}: size is {}, expected 0 or more samples", sampler, size);
  return size;
}

}  // namespace

Sampler::~Sampler() = default;
BatchSampler::~BatchSampler() = default;

SequentialSampler::SequentialSampler(std::int64_t size)
    : size_(checked_size(size, "SequentialSampler")) {}

std::vector<std::int64_t> SequentialSampler::order(std::int64_t) const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size_));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

RandomSampler::RandomSampler(std::int64_t size, std::uint64_t seed)
    : size_(checked_size(size, "RandomSampler")), seed_(seed) {}

std::vector<std::int64_t> RandomSampler::order(std::int64_t epoch) const {
  return permutation(size_, seed_, Purpose::shuffle, epoch);
}

SubsetRandomSampler::SubsetRandomSampler(std::vector<std::int64_t> indices, std::uint64_t seed)
    : indices_(std::move(indices)), seed_(seed) {
  std::vector<std::int64_t> sorted = indices_;
  std::sort(sorted.begin(), sorted.end());
  repeats_ = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
}

std::vector<std::int64_t> SubsetRandomSampler::order(std::int64_t epoch) const {
  std::vector<std::int64_t> order = permutation(size(), seed_, Purpose::shuffle, epoch);
  for (std::int64_t& i : order) i = indices_[static_cast<std::size_t>(i)];
  return order;
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, std::int64_t count,
                                             std::uint64_t seed, bool replacement)
    : weights_(std::move(weights)), count_(count), seed_(seed), replacement_(replacement) {
  std::int64_t possible = 0;
  double sum = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    check<ValueError>(weights_[i] >= 0 && std::isfinite(weights_[i]),
                      "WeightedRandomSampler: weight {} of sample {}, expected a finite number of "
                      "at least 0",
                      weights_[i], i);
    possible += weights_[i] > 0 ? 1 : 0;
    cumulative_.push_back(sum += weights_[i]);
  }
  check<ValueError>(count >= 1 && possible >= (replacement ? 1 : count) && std::isfinite(sum),
                    "WeightedRandomSampler: {} draws {} replacement from {} weights above 0 with "
                    "the sum {}",
                    count, replacement ? "with" : "without", possible, sum);
}

std::vector<std::int64_t> WeightedRandomSampler::order(std::int64_t epoch) const {
  std::vector<std::int64_t> drawn(static_cast<std::size_t>(count_));
  if (replacement_) {
    // Products round up to the sum where it is tiny, beyond the last weight above 0.
    const double below = std::nextafter(cumulative_.back(), 0.0);
    for (std::int64_t i = 0; i < count_; ++i) {
      const double at = std::min(uniform(seed_, epoch, i) * cumulative_.back(), below);
      const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end() - 1, at);
      drawn[static_cast<std::size_t>(i)] = found - cumulative_.begin();
    }
    return drawn;
  }
  // The smallest of exponential variables with the weights as rates (Efraimidis and Spirakis,
  // 2006).
  std::vector<std::pair<double, std::int64_t>> keys;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] == 0) continue;
    const auto index = static_cast<std::int64_t>(i);
    // The logarithm of the quotient, which tiny weights would make infinite.
    keys.emplace_back(std::log(-std::log(uniform(seed_, epoch, index))) - std::log(weights_[i]),
                      index);
  }
  std::partial_sort(keys.begin(), keys.begin() + count_, keys.end());
  for (std::size_t i = 0; i < drawn.size(); ++i) drawn[i] = keys[i].second;
  return drawn;
}

LengthBucketSampler::LengthBucketSampler(std::vector<std::int64_t> lengths,
                                         const LengthBucketOptions& options)
    : lengths_(std::move(lengths)), options_(options) {
  check<ValueError>(options.batch_size >= 1 && options.group >= 1,
                    "LengthBucketSampler: batch_size {} and group {}, expected at least 1",
                    options.batch_size, options.group);
}

std::int64_t LengthBucketSampler::size() const {
  const auto samples = static_cast<std::int64_t>(lengths_.size());
  return count_batches(samples, options_.batch_size, options_.drop_last);
}

BatchPlan LengthBucketSampler::plan(std::int64_t epoch) const {
  const auto samples = static_cast<std::int64_t>(lengths_.size());
  std::vector<std::int64_t> order = permutation(samples, options_.seed, Purpose::shuffle, epoch);
  // No product that overflows.
  const std::int64_t batches = count_batches(samples, options_.batch_size, false);
  const std::int64_t group = options_.group < batches ? options_.batch_size * options_.group
                                                      : std::max<std::int64_t>(samples, 1);
  for (std::int64_t first = 0; first < samples; first += group) {
    std::stable_sort(order.begin() + first, order.begin() + std::min(first + group, samples),
                     [this](std::int64_t a, std::int64_t b) {
                       return lengths_[static_cast<std::size_t>(a)] <
                              lengths_[static_cast<std::size_t>(b)];
                     });
  }
  const BatchPlan sorted = cut_into_batches(order, 0, options_.batch_size, options_.drop_last);
  // A stream of its own: the batches' order must not follow that of the samples.
  const auto places = permutation(sorted.size(), ~options_.seed, Purpose::shuffle, epoch);
  BatchPlan plan;
  for (const std::int64_t place : places) {
    const auto b = static_cast<std::size_t>(place);
    plan.indices.insert(plan.indices.end(), sorted.indices.begin() + sorted.begins[b],
                        sorted.indices.begin() + sorted.begins[b + 1]);
    plan.begins.push_back(static_cast<std::int64_t>(plan.indices.size()));
  }
  return plan;
}

DistributedSampler::DistributedSampler(std::shared_ptr<const BatchSampler> batches,
                                       std::int64_t rank, std::int64_t world_size)
    : batches_(std::move(batches)), rank_(rank), world_size_(world_size) {
  check<ValueError>(batches_ != nullptr, "DistributedSampler: the batch sampler is null");
  check<ValueError>(world_size >= 1 && rank >= 0 && rank < world_size,
                    "DistributedSampler: rank {} of {}, expected 0 to one less than their number",
                    rank, world_size);
}

BatchPlan DistributedSampler::plan(std::int64_t epoch) const {
  const BatchPlan plan = batches_->plan(epoch);
  check_plan(plan);
  return share_of(plan, rank_, world_size_);
}

}  // namespace facula::data
