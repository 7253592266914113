// Data sets made of tensors or of other sets.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "data/loading.h"
#include "data/random_choice.h"

namespace facula::data {
namespace {

void check_set(const DatasetPtr& set, const char* what) {
  check<ValueError>(set != nullptr, "{}: a data set is null", what);
}

class TensorDataset final : public Loading<Dataset> {
 public:
  explicit TensorDataset(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
    check<ValueError>(!tensors_.empty(), "tensor_dataset: no tensors; give at least one");
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      Tensor& rows = tensors_[i];
      check<ValueError>(rows.defined(), "tensor_dataset: tensor {} is undefined", i);
      check<ShapeError>(rows.dim() >= 1 && rows.size(0) == tensors_[0].size(0),
                        "tensor_dataset: tensor {} is of size {} and tensor 0 of size {}, expected "
                        "equal first dimensions",
                        i, rows.sizes(), tensors_[0].sizes());
      rows = rows.detach();
    }
  }

  std::int64_t size() const override { return tensors_[0].size(0); }

  void load(std::int64_t index, Sample& sample) const override {
    check_index(index, size(), "tensor_dataset");
    auto& fields = sample.fields();
    fields.resize(tensors_.size());
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      fields[i].name.clear();
      fields[i].set(tensors_[i][index]);
    }
  }

 private:
  std::vector<Tensor> tensors_;
};

class ConcatDataset final : public Loading<Dataset> {
 public:
  explicit ConcatDataset(std::vector<DatasetPtr> sets) : sets_(std::move(sets)) {
    check<ValueError>(!sets_.empty(), "concat: no data sets; give at least one");
    for (const auto& set : sets_) {
      check_set(set, "concat");
      const std::int64_t size = set->size(), begin = ends_.empty() ? 0 : ends_.back();
      check<ValueError>(size >= 0,
                        "concat: data set {} says that its size is {}, expected 0 or more",
                        ends_.size(), size);
      check<ValueError>(size <= INT64_MAX - begin,
                        "concat: {} samples and the {} of data set {} are more than 2^63 - 1; join "
                        "fewer",
                        begin, size, ends_.size());
      ends_.push_back(begin + size);
    }
  }

  std::int64_t size() const override { return ends_.back(); }
  void load(std::int64_t index, Sample& sample) const override {
    const auto [set, local] = find(index);
    set->load(local, sample);
  }
  void prefetch(std::int64_t index) const override {
    const auto [set, local] = find(index);
    set->prefetch(local);
  }
  std::string source(std::int64_t index) const override {
    const auto [set, local] = find(index);
    return set->source(local);
  }

 private:
  std::pair<const Dataset*, std::int64_t> find(std::int64_t index) const {
    check_index(index, size(), "concat");
    const auto i = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    return {sets_[i].get(), index - (i == 0 ? 0 : ends_[i - 1])};
  }

  std::vector<DatasetPtr> sets_;
  std::vector<std::int64_t> ends_;
};

class SubsetDataset final : public Loading<Dataset> {
 public:
  SubsetDataset(DatasetPtr set, std::vector<std::int64_t> indices)
      : set_(std::move(set)), indices_(std::move(indices)) {
    check_set(set_, "subset");
    for (const std::int64_t index : indices_) check_index(index, set_->size(), "subset");
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  void load(std::int64_t index, Sample& sample) const override {
    set_->load(original(index), sample);
  }
  void prefetch(std::int64_t index) const override { set_->prefetch(original(index)); }
  std::string source(std::int64_t index) const override { return set_->source(original(index)); }

 private:
  std::int64_t original(std::int64_t index) const {
    check_index(index, size(), "subset");
    return indices_[static_cast<std::size_t>(index)];
  }

  DatasetPtr set_;
  std::vector<std::int64_t> indices_;
};

}  // namespace

DatasetPtr tensor_dataset(std::vector<Tensor> tensors) {
  return std::make_shared<TensorDataset>(std::move(tensors));
}

DatasetPtr concat(std::vector<DatasetPtr> sets) {
  return std::make_shared<ConcatDataset>(std::move(sets));
}

DatasetPtr subset(DatasetPtr set, std::vector<std::int64_t> indices) {
  return std::make_shared<SubsetDataset>(std::move(set), std::move(indices));
}

std::pair<DatasetPtr, DatasetPtr> random_split(const DatasetPtr& set, double fraction,
                                               std::uint64_t seed) {
  check_set(set, "random_split");
  const std::int64_t size = set->size();
  // Compared this way round, NaN is refused as well.
  check<ValueError>(fraction >= 0 && fraction <= 1,
                    "random_split: fraction is {}, expected a value between 0 and 1", fraction);
  const auto held_out =
      static_cast<std::int64_t>(std::llround(fraction * static_cast<double>(size)));
  check<ValueError>(held_out >= 1 && held_out < size,
                    "random_split: fraction {} of {} samples makes parts of {} and {}, each needs "
                    "at least one; choose another fraction",
                    fraction, size, size - held_out, held_out);
  auto parts = random_split(set, {held_out, size - held_out}, seed);
  return {std::move(parts[1]), std::move(parts[0])};
}

std::vector<DatasetPtr> random_split(const DatasetPtr& set, const std::vector<std::int64_t>& sizes,
                                     std::uint64_t seed) {
  check_set(set, "random_split");
  std::int64_t left = set->size();
  for (const std::int64_t size : sizes) {
    check<ValueError>(size >= 0, "random_split: a part of {} samples, expected 0 or more", size);
    left = size > left ? -1 : left - size;  // no sum that overflows
  }
  check<ValueError>(left == 0, "random_split: parts of {} samples do not add up to the set's {}",
                    IntList(sizes), set->size());
  const auto order = permutation(set->size(), seed, Purpose::split, 0);
  std::vector<DatasetPtr> parts;
  auto first = order.begin();
  for (const std::int64_t size : sizes) {
    std::vector<std::int64_t> part(first, first + size);
    first += size;
    std::ranges::sort(part);
    parts.push_back(subset(set, std::move(part)));
  }
  return parts;
}

}  // namespace facula::data
