// Weights of convolutions as panels, which kernels/pointwise.h multiplies rows of channels by.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/scratch.h"
#include "backends/cpu/weight_taps.h"

namespace facula::cpu {

/// The matrices [inputs, outputs] of all taps, packed one after the other.
class PackedTaps {
 public:
  PackedTaps(const Taps<const float>& taps, std::int64_t count, std::int64_t inputs,
             std::int64_t outputs);

  const float* tap(std::int64_t number) const { return data_.data() + number * tap_size_; }
  /// The outputs that panels begin with.
  std::span<const std::int64_t> panels() const { return panels_; }

 private:
  void pack(const Taps<const float>& taps, std::int64_t count, std::int64_t channel,
            std::int64_t channels, std::int64_t output, std::int64_t left) const;

  std::int64_t inputs_, tap_size_;
  std::vector<std::int64_t> panels_;
  Scratch<float> data_;
};

}  // namespace facula::cpu
