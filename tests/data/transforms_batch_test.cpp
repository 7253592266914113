#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <facula/data/data_loader.h>
#include <facula/data/transforms.h>

#include "tests/support/expect.h"

namespace facula::data::transforms {
namespace {

constexpr std::int64_t kImages = 5, kChannels = 3, kHeight = 6, kWidth = 7, kClasses = 4;

/// Image i is filled with the value i; its label is i % 4.
Batch numbered(bool channels_last) {
  Tensor images = empty({kImages, kChannels, kHeight, kWidth}, kFloat32,
                        channels_last ? kChannelsLast : kContiguous);
  Tensor labels = empty({kImages}, kInt64);
  for (std::int64_t i = 0; i < kImages; ++i) {
    images[i].fill_(static_cast<double>(i));
    labels[i].fill_(i % kClasses);
  }
  Batch batch;
  batch.add("image", images);
  batch.add("label", labels);
  return batch;
}

std::int64_t before(std::int64_t i) { return (i + kImages - 1) % kImages; }

TEST(MixUp, MixesEachImageWithTheOneBefore) {
  for (const bool channels_last : {false, true}) {
    Batch batch = numbered(channels_last);
    Random random(1, 2, 3);
    MixUp(kClasses, 0.7)(batch, random);
    ASSERT_EQ(batch[1].sizes().vec(), (std::vector<std::int64_t>{kImages, kClasses}));
    const std::vector<double> shares = batch[1].to_vector<double>();
    const double lambda = shares[kClasses + 1];  // sample 1 has label 1, the one before 0
    EXPECT_GT(lambda, 0);
    EXPECT_LT(lambda, 1);
    for (std::int64_t i = 0; i < kImages; ++i) {
      const double expected =
          lambda * static_cast<double>(i) + (1 - lambda) * static_cast<double>(before(i));
      expect_values(batch[0][i], std::vector<double>(kChannels * kHeight * kWidth, expected));
      std::vector<double> row(kClasses, 0);
      row[static_cast<std::size_t>(i % kClasses)] += lambda;
      row[static_cast<std::size_t>(before(i) % kClasses)] += 1 - lambda;
      expect_values(batch[1][i], row);
    }
  }
}

TEST(CutMix, LabelsFollowTheArea) {
  int boxes = 0;
  for (std::int64_t seed = 0; seed < 40; ++seed) {
    Batch batch = numbered(seed % 2 == 0);
    Random random(static_cast<std::uint64_t>(seed), 0, 0);
    const CutMix cut_mix(kClasses);
    cut_mix(batch, random);
    std::vector<std::int64_t> first_box;
    for (std::int64_t i = 0; i < kImages; ++i) {
      // Every value is the image's own or that of the one before, which fills a box.
      const std::vector<double> values = batch[0][i].contiguous().to_vector<double>();
      std::vector<std::int64_t> box;
      for (std::size_t k = 0; k < values.size(); ++k) {
        if (values[k] == static_cast<double>(before(i))) {
          box.push_back(static_cast<std::int64_t>(k));
        } else {
          ASSERT_EQ(values[k], static_cast<double>(i));
        }
      }
      if (i == 0) first_box = box;
      EXPECT_EQ(box, first_box);
      const double share = static_cast<double>(box.size()) / static_cast<double>(values.size());
      std::vector<double> row(kClasses, 0);
      row[static_cast<std::size_t>(i % kClasses)] += 1 - share;
      row[static_cast<std::size_t>(before(i) % kClasses)] += share;
      expect_values(batch[1][i], row);
    }
    boxes += !first_box.empty();
  }
  EXPECT_GT(boxes, 20);
}

TEST(MixUp, LambdaIsBetaDistributed) {
  // Beta(a, a) has mean 1/2 and variance 1 / (4 (2 a + 1)); two halves of the batch show lambda.
  for (const double alpha : {0.1, 0.4, 1.0, 3.0}) {
    double sum = 0, squares = 0;
    constexpr int kDraws = 4000;
    for (int k = 0; k < kDraws; ++k) {
      Batch batch;
      batch.add("image", zeros({2, 1, 1, 1}, kFloat32));
      Tensor labels = zeros({2}, kInt64);
      labels[1].fill_(1);
      batch.add("label", labels);
      Random random(9, 0, k);
      MixUp(2, alpha)(batch, random);
      const double lambda = batch[1].to_vector<double>()[0];
      sum += lambda;
      squares += (lambda - 0.5) * (lambda - 0.5);
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(variance / kDraws)) << "alpha " << alpha;
    EXPECT_NEAR(squares / kDraws, variance, 0.1 * variance) << "alpha " << alpha;
  }
}

TEST(MixUp, Errors) {
  Random random(1, 2, 3);
  EXPECT_ERROR(ValueError, "alpha", MixUp(10, 0));
  EXPECT_ERROR(ValueError, "at least 1e-300", MixUp(3, 1e-310));
  EXPECT_ERROR(ValueError, "at least 1e-300", CutMix(3, 1e-310));
  EXPECT_ERROR(ValueError, "classes", CutMix(0));
  Batch batch = numbered(true);
  EXPECT_ERROR(ValueError, "outside the 3 classes", MixUp(3)(batch, random));
  batch[0] = zeros({kImages, 2}, kFloat32);
  EXPECT_ERROR(ShapeError, "[n, C, H, W]", CutMix(4)(batch, random));
  batch[0] = zeros({kImages, 1, 2, 2}, kUInt8);
  EXPECT_ERROR(DTypeError, "float32", CutMix(4)(batch, random));
}

TEST(MixUp, TheLeastAlphaTakesOneOfTwo) {
  std::set<float> shares;
  for (std::int64_t draw = 0; draw < 20; ++draw) {
    Batch batch = numbered(true);
    Random random(1, 2, draw);
    MixUp(4, 1e-300)(batch, random);
    for (const float share : batch[1].to_vector<float>()) shares.insert(share);
  }
  EXPECT_EQ(shares, (std::set<float>{0, 1}));
}

TEST(MixUp, ABatchOfOneIsMixedWithItself) {
  Batch batch;
  batch.add("image", ones({1, 1, 2, 2}, kFloat32));
  batch.add("label", zeros({1}, kInt64));
  Random random(1, 2, 3);
  MixUp(2)(batch, random);
  expect_values(batch[0], {1, 1, 1, 1});
  expect_values(batch[1], {1, 0});
}

TEST(RandomErasing, ErasesARectangleOfTheSizeWanted) {
  int erased = 0;
  for (std::int64_t i = 0; i < 200; ++i) {
    const Tensor original = ones({3, 20, 30}, kFloat32);
    Sample sample{original};
    Random random(4, 0, i);
    RandomErasing({.p = 0.5, .scale = {0.1, 0.2}, .ratio = {0.5, 2}, .value = -7})(sample, random);
    const std::vector<double> values = sample.tensor().contiguous().to_vector<double>();
    const auto count = std::ranges::count(values, -7);
    EXPECT_EQ(std::ranges::count(values, 1) + count, std::ssize(values));
    EXPECT_EQ(count % 3, 0);
    if (count > 0) {
      ++erased;
      EXPECT_GE(count / 3, 45);
      EXPECT_LE(count / 3, 140);
    }
    expect_values(original, std::vector<double>(1800, 1));
  }
  EXPECT_NEAR(erased, 100, 35);
}

// It makes tensors of the images that it changes, and of others none.
TEST(RandomErasing, BatchesHoldErasedAndOtherImages) {
  const DatasetPtr set = from_tensors(full({40, 3, 8, 8}, 255, kUInt8), zeros({40}, kInt64), 1);
  for (const int workers : {0, 2}) {
    for (const float value : {0.0f, 2.0f}) {
      const DataLoader loader(set,
                              {.batch_size = 40,
                               .transform = Compose({ToTensor(), RandomErasing({.value = value})}),
                               .num_workers = workers});
      for (const Batch& batch : loader.epoch(0)) {
        EXPECT_TRUE(batch[0].is_contiguous(kChannelsLast));
        const Tensor changed = batch[0].flatten(1).ne(1.0).any(1);
        EXPECT_GT(changed.sum().item<std::int64_t>(), 5);
        EXPECT_LT(changed.sum().item<std::int64_t>(), 35);
      }
    }
  }
}

TEST(RandomErasing, WhatFollowsTakesTheSameImage) {
  const std::vector<std::uint8_t> pixels(10 * 10, 255);
  const Image image(pixels.data(), 10, 10, 1);
  Image other = image;
  other.to_float();
  Sample sample{image, other};
  Random random(4, 0, 0);
  Compose({ToTensor(), RandomErasing({.p = 1, .value = 3}), Normalize({1}, {2})})(sample, random);
  EXPECT_EQ(sample.tensor(0).max().item<float>(), 1);
  EXPECT_EQ(sample.tensor(0).min().item<float>(), 0);
  expect_values(sample.tensor(1), std::vector<double>(100, 1));
  // Others' tensors are none.
  Sample masked{ones({1, 2, 2}, kFloat32), other};
  Normalize({1}, {2})(masked, random);
  expect_values(masked.tensor(0), {1, 1, 1, 1});
  expect_values(masked.tensor(1), std::vector<double>(100, 0));
  Sample nothing{Tensor()}, no_pixels{Image()};
  EXPECT_ERROR(ValueError, "Normalize: the tensor is undefined",
               Normalize({1}, {2})(nothing, random));
  EXPECT_ERROR(ValueError, "RandomErasing: the image is undefined",
               RandomErasing({.p = 1})(no_pixels, random));
}

// Loaders and data sets make samples where others were.
TEST(RandomErasing, IsForgottenWithTheSample) {
  struct Masked : Dataset {
    std::int64_t size() const override { return 2; }
    Sample get(std::int64_t) const override {
      return {{"mask", full({1, 4, 4}, 0.25)}, {"image", Image(full({3, 4, 4}, 51, kUInt8))}};
    }
  };
  const DatasetPtr masked = cached(std::make_shared<Masked>());
  const DatasetPtr images = from_tensors(zeros({2, 3, 4, 4}, kUInt8), zeros({2}, kInt64), 2);
  const Transform erase = Compose({ToTensor(), RandomErasing({.p = 1})});
  const Transform normalize = Compose({ToTensor(), Normalize({0.5}, {0.5})});
  for (auto& batch : DataLoader(images, {.transform = erase, .num_workers = 0}).epoch(0)) {
    EXPECT_EQ(batch.size(), 2u);
  }
  for (auto& batch : DataLoader(masked, {.transform = normalize, .num_workers = 0}).epoch(0)) {
    EXPECT_EQ(batch["mask"].max().item<float>(), 0.25f);
    EXPECT_NEAR(batch["image"].max().item<float>(), -0.6f, 1e-6);
  }
  const DatasetPtr bytes = tensor_dataset({full({2, 3, 4, 4}, 51, kUInt8), zeros({2}, kInt64)});
  for (const DatasetPtr& set : {masked, images, bytes}) {
    Sample sample;
    images->load(0, sample);
    Random random(1, 0, 0);
    erase(sample, random);
    set->load(1, sample);
    for (const Sample::Field& field : sample.fields()) EXPECT_FALSE(field.was_image);
  }
}

TEST(RandomErasing, FollowsToTensor) {
  const std::vector<std::uint8_t> pixels(10 * 10 * 3, 255);
  Sample sample{std::int64_t{1}, Image(pixels.data(), 10, 10, 3)};
  Random random(4, 0, 0);
  EXPECT_ERROR(ValueError, "after ToTensor", RandomErasing({.p = 1})(sample, random));
  sample.image().to_float();
  RandomErasing({.p = 1, .random_value = true})(sample, random);
  const std::vector<double> values = sample.tensor(1).contiguous().to_vector<double>();
  const auto kept = std::ranges::count(values, 1);
  EXPECT_GT(kept, 150);
  EXPECT_LT(kept, 300);
  EXPECT_ERROR(ValueError, "scale", RandomErasing({.scale = {0.5, 0.2}}));
  Sample without{std::int64_t{1}};
  EXPECT_ERROR(ValueError, "none of the 1 fields", RandomErasing({.p = 1})(without, random));
}

TEST(Normalize, TakesTensorsWhereThereIsNoImage) {
  Random random(4, 0, 0);
  const Tensor original = ones({2, 2, 3}, kFloat32);
  Sample sample{std::int64_t{1}, original};
  Normalize({0.5, -1}, {2, 4})(sample, random);
  std::vector<double> expected(12, 0.25);
  std::fill_n(expected.begin() + 6, 6, 0.5);
  expect_values(sample.tensor(1), expected);
  expect_values(original, std::vector<double>(12, 1));
  Normalize({0.25}, {0.5})(sample, random);  // one for all channels
  std::fill_n(expected.begin(), 6, 0.0);
  expect_values(sample.tensor(1), expected);

  // What RandomErasing has made a tensor of can still be normalised.
  const std::vector<std::uint8_t> pixels(4 * 4 * 3, 255);
  Sample erased{Image(pixels.data(), 4, 4, 3), zeros({1})};
  Compose({ToTensor(), RandomErasing({.p = 1, .value = 3}), Normalize({1}, {2})})(erased, random);
  const std::vector<double> values = erased.tensor(0).contiguous().to_vector<double>();
  EXPECT_GT(std::ranges::count(values, 1), 0);
  EXPECT_EQ(std::ranges::count(values, 1) + std::ranges::count(values, 0), std::ssize(values));

  Sample flat{ones({6}, kFloat32)}, bytes{ones({1, 2, 2}, kUInt8)};
  EXPECT_ERROR(ShapeError, "[C, H, W]", Normalize({0.5}, {2})(flat, random));
  EXPECT_ERROR(DTypeError, "uint8", Normalize({0.5}, {2})(bytes, random));
  EXPECT_ERROR(ValueError, "3 means", Normalize({0, 0, 0}, {1, 1, 1})(sample, random));
}

}  // namespace
}  // namespace facula::data::transforms
