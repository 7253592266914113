// Data sets in files, and sets to look at, for the tests of src/data.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <facula/data/dataset.h>

#include "tests/io/test_files.h"

namespace facula::data {

inline std::string idx(std::initializer_list<int> dims, const std::string& data) {
  std::string file{'\0', '\0', '\x08', static_cast<char>(dims.size())};
  for (const int dim : dims) {
    file += {'\0', '\0', static_cast<char>(dim >> 8), static_cast<char>(dim & 0xff)};
  }
  return file + data;
}

/// Pixels count up from 0; image i has label i % 10.
inline void put_mnist(const io::TempFolder& folder, const std::string& prefix, int count) {
  std::string pixels, labels;
  for (int i = 0; i < count * 6; ++i) pixels += static_cast<char>(i);
  for (int i = 0; i < count; ++i) labels += static_cast<char>(i % 10);
  io::put(folder / (prefix + "-images-idx3-ubyte"), idx({count, 2, 3}, pixels));
  io::put(folder / (prefix + "-labels-idx1-ubyte"), idx({count}, labels));
}

/// `count` images of 1 x 2 x 3 pixels that count up; image i has label i % 10.
inline ImageDatasetPtr counting_set(std::int64_t count) {
  std::vector<double> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(static_cast<double>(i % 10));
  const Tensor images = arange(count * 6).reshape({count, 1, 2, 3}).to(kUInt8);
  return from_tensors(images, tensor(labels, {-1}, kInt64), 10);
}

/// The pixels of a sample's image, channels innermost.
inline std::vector<std::uint8_t> pixels_of(Sample sample) {
  return sample.image().pixels().to_vector<std::uint8_t>();
}

inline std::int64_t label_of(Sample sample) { return std::get<std::int64_t>(sample["label"]); }

}  // namespace facula::data
