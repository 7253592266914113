#include "ops/schema/samples.h"

namespace facula {
namespace {

// SplitMix64: a small generator of its own keeps samples independent of the library's random ops.
std::uint64_t next(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

void Samples::add(Sample sample) { samples_.push_back(std::move(sample)); }

void Samples::add(std::initializer_list<Argument> sample) { samples_.emplace_back(sample); }

void ErrorSamples::fails(std::initializer_list<Argument> sample, const char* message) {
  failures_.push_back({sample, message});
}

Tensor Samples::uniform(IntList sizes, double low, double high) {
  Tensor values = empty(sizes, kFloat32);
  float* data = values.data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const double unit = static_cast<double>(next(state_) >> 11) * 0x1p-53;
    data[i] = static_cast<float>(low + (high - low) * unit);
  }
  return values;
}

Tensor Samples::integers(IntList sizes, std::int64_t low, std::int64_t high) {
  Tensor values = empty(sizes, kInt64);
  std::int64_t* data = values.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    data[i] =
        low + static_cast<std::int64_t>(next(state_) % static_cast<std::uint64_t>(high - low));
  }
  return values;
}

Tensor Samples::mask(IntList sizes) {
  Tensor values = empty(sizes, kBool);
  bool* data = values.data_ptr<bool>();
  for (std::int64_t i = 0; i < values.numel(); ++i) data[i] = next(state_) & 1;
  return values;
}

void Samples::unary(double low, double high) {
  add({uniform({}, low, high)});
  add({uniform({5}, low, high)});
  add({uniform({3, 4, 2}, low, high)});
}

void Samples::binary(double low, double high) {
  add({uniform({}, -3, 3), uniform({}, low, high)});
  add({uniform({3, 4}, -3, 3), uniform({3, 4}, low, high)});
  add({uniform({2, 3, 4}, -3, 3), uniform({3, 1}, low, high)});
  add({uniform({4}, -3, 3), uniform({2, 1, 4}, low, high)});
}

void Samples::ternary(double low, double high) {
  add({normal({3, 4}), uniform({3, 4}, low, high), normal({3, 4})});
  add({normal({3, 4}), uniform({4}, low, high), normal({})});
}

}  // namespace facula
