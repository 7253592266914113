// Cutting an order of samples into batches, and batches into shares.
#pragma once

#include <cstdint>
#include <vector>

#include <facula/data/sampler.h>

namespace facula::data {

/// Throws ValueError for a plan, of a batch sampler that somebody wrote, that contradicts itself.
void check_plan(const BatchPlan& plan);

/// How many samples of the global batch come before those of a batch.
std::int64_t offset_of(const BatchPlan& plan, std::int64_t batch);

/// How many batches so many samples make.
std::int64_t count_batches(std::int64_t samples, std::int64_t batch_size, bool drop_last);

/// Batches of `batch_size` from `order`, without its first `skipped` samples, of which it has so
/// many.
BatchPlan cut_into_batches(const std::vector<std::int64_t>& order, std::int64_t skipped,
                           std::int64_t batch_size, bool drop_last);

/// What is left of a plan after its first samples. Throws ValueError unless a batch begins there.
BatchPlan without_first(const BatchPlan& plan, std::int64_t samples);

/// The part of every batch that falls to `rank`; see DistributedSampler.
BatchPlan share_of(const BatchPlan& plan, std::int64_t rank, std::int64_t world_size);

}  // namespace facula::data
