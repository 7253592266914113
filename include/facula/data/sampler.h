// Which samples an epoch visits, in which order, in which batches: functions of the epoch alone.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <facula/export.h>

namespace facula::data {

/// Yields the order of the samples.
class FACULA_API Sampler {
 public:
  virtual ~Sampler();
  virtual std::vector<std::int64_t> order(std::int64_t epoch) const = 0;
  /// Samples in every epoch.
  virtual std::int64_t size() const = 0;
  /// Whether order() may name a sample twice; random transforms then depend on its position.
  virtual bool repeats() const { return false; }
};

/// 0, 1, ... size - 1.
class FACULA_API SequentialSampler : public Sampler {
 public:
  /// Throws ValueError for a negative size.
  explicit SequentialSampler(std::int64_t size);
  std::vector<std::int64_t> order(std::int64_t epoch) const override;
  std::int64_t size() const override { return size_; }

 private:
  std::int64_t size_;
};

/// All samples in a new random order in every epoch.
class FACULA_API RandomSampler : public Sampler {
 public:
  /// Throws ValueError for a negative size.
  RandomSampler(std::int64_t size, std::uint64_t seed);
  std::vector<std::int64_t> order(std::int64_t epoch) const override;
  std::int64_t size() const override { return size_; }

 private:
  std::int64_t size_;
  std::uint64_t seed_;
};

/// The given samples in random order; one that is given twice comes twice.
class FACULA_API SubsetRandomSampler : public Sampler {
 public:
  SubsetRandomSampler(std::vector<std::int64_t> indices, std::uint64_t seed);
  std::vector<std::int64_t> order(std::int64_t epoch) const override;
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  bool repeats() const override { return repeats_; }

 private:
  std::vector<std::int64_t> indices_;
  std::uint64_t seed_;
  bool repeats_;
};

/// `count` samples, each drawn with a probability proportional to its weight; without replacement,
/// no sample twice.
class FACULA_API WeightedRandomSampler : public Sampler {
 public:
  /// Throws ValueError for negative or infinite weights, for none above 0, and without replacement
  /// for more draws than weights above 0.
  WeightedRandomSampler(std::vector<double> weights, std::int64_t count, std::uint64_t seed,
                        bool replacement = true);
  std::vector<std::int64_t> order(std::int64_t epoch) const override;
  std::int64_t size() const override { return count_; }
  bool repeats() const override { return replacement_; }

 private:
  std::vector<double> weights_, cumulative_;
  std::int64_t count_;
  std::uint64_t seed_;
  bool replacement_;
};

/// Batches one after the other: batch b is indices[begins[b]] ... indices[begins[b + 1] - 1].
struct BatchPlan {
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> begins = {0};
  /// How many samples of the epoch, over all ranks, come before each batch; one entry more for the
  /// end. Left empty, it is `begins`.
  std::vector<std::int64_t> positions = {};
  /// Of shares: how many samples of the global batch come before those of each batch. Left empty,
  /// none.
  std::vector<std::int64_t> offsets = {};

  std::int64_t size() const { return static_cast<std::int64_t>(begins.size()) - 1; }
};

/// Yields the batches of an epoch.
class FACULA_API BatchSampler {
 public:
  virtual ~BatchSampler();
  virtual BatchPlan plan(std::int64_t epoch) const = 0;
  /// Batches in every epoch.
  virtual std::int64_t size() const = 0;
  virtual bool repeats() const { return false; }
};

/// Batches of samples of similar length, for data that is padded to the longest of a batch: the
/// samples in random order are sorted by length within groups of `group` batches, and the batches
/// shuffled.
struct LengthBucketOptions {
  std::int64_t batch_size = 1;
  std::int64_t group = 100;
  bool drop_last = false;
  std::uint64_t seed = 0;
};
class FACULA_API LengthBucketSampler : public BatchSampler {
 public:
  /// Throws ValueError for sizes below 1.
  LengthBucketSampler(std::vector<std::int64_t> lengths, const LengthBucketOptions& options);
  BatchPlan plan(std::int64_t epoch) const override;
  std::int64_t size() const override;

 private:
  std::vector<std::int64_t> lengths_;
  LengthBucketOptions options_;
};

/// One rank's share of the batches of another sampler. All ranks see the same global batches, each
/// an equal share of every one of them, up to one sample; together they see what a single rank
/// would. A last batch with fewer samples than ranks is filled up with samples of its own, so that
/// all ranks make the same number of steps.
class FACULA_API DistributedSampler : public BatchSampler {
 public:
  /// Throws ValueError without batches and unless 0 <= rank < world_size.
  DistributedSampler(std::shared_ptr<const BatchSampler> batches, std::int64_t rank,
                     std::int64_t world_size);
  BatchPlan plan(std::int64_t epoch) const override;
  std::int64_t size() const override { return batches_->size(); }
  bool repeats() const override { return batches_->repeats(); }

 private:
  std::shared_ptr<const BatchSampler> batches_;
  std::int64_t rank_, world_size_;
};

}  // namespace facula::data
