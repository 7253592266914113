// What data sets yield and transforms change: samples; what loaders yield: batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <facula/data/image.h>
#include <facula/tensor.h>

namespace facula::data {

/// One value of a sample. Numbers become tensors [n] of a batch: int64, or float32 from double.
using Value = std::variant<std::int64_t, double, Tensor, Image>;

/// A sample: values in order, with names or without. Built-in image sets yield "image" and "label".
class FACULA_API Sample {
 public:
  struct Field {
    std::string name;
    Value value;
    bool was_image = false;  ///< a tensor that RandomErasing has made of an image

    /// Another value, of which nothing is known.
    void set(Value next) {
      value = std::move(next);
      was_image = false;
    }
  };

  Sample() = default;
  /// A tuple: Sample{Image(pixels), label}.
  Sample(std::initializer_list<Value> values);
  /// A dictionary: Sample{{"image", image}, {"mask", mask}}.
  Sample(std::initializer_list<Field> fields) : fields_(fields) {}

  std::size_t size() const { return fields_.size(); }
  std::vector<Field>& fields() { return fields_; }
  const std::vector<Field>& fields() const { return fields_; }

  /// Throw IndexError, or ValueError naming the fields there are.
  Value& operator[](std::size_t i);
  Value& operator[](std::string_view name);
  void add(std::string name, Value value) {
    fields_.push_back({std::move(name), std::move(value)});
  }
  void clear() { fields_.clear(); }

  /// The first image. Throws ValueError if there is none, or if it is undefined.
  Image& image();
  /// The value of field i as a tensor: an image is converted (and replaced by the tensor), a number
  /// becomes a 0-d tensor.
  Tensor& tensor(std::size_t i = 0);

 private:
  std::vector<Field> fields_;
};

/// Random numbers for one sample: a pure function of (seed, epoch, sample), so that augmentation
/// does not depend on workers, batches or restarts.
class FACULA_API Random {
 public:
  /// What the numbers are for: different purposes never share any.
  enum class Use : std::uint8_t { sample, position, batch };

  Random(std::uint64_t seed, std::int64_t epoch, std::int64_t index, Use use = Use::sample);

  /// 32 random bits.
  std::uint32_t bits() {
    if (used_ == 4) refill();
    return words_[used_++];
  }
  /// Uniform on 0 ... bound - 1; `bound` is at most 2^31.
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(bound) * bits() >> 32);
  }
  /// Uniform on [0, 1), a multiple of 2^-32.
  double uniform() { return bits() * 0x1p-32; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// True with the given probability.
  bool chance(double probability) { return uniform() < probability; }
  /// Standard normal.
  double normal();

 private:
  void refill();

  std::uint64_t seed_, index_, stream_;
  std::uint32_t words_[4];
  int used_ = 4;
};

/// Changes a sample in place; any callable will do. Every random choice is to come from `random`.
using Transform = std::function<void(Sample& sample, Random& random)>;

/// The fields of n samples, joined: tensors [n, ...].
class FACULA_API Batch {
 public:
  struct Field {
    std::string name;
    Tensor tensor;
  };

  std::vector<Field>& fields() { return fields_; }
  const std::vector<Field>& fields() const { return fields_; }
  std::size_t size() const { return fields_.size(); }
  /// Throw IndexError, or ValueError naming the fields there are.
  Tensor& operator[](std::size_t i);
  const Tensor& operator[](std::size_t i) const;
  Tensor& operator[](std::string_view name);
  const Tensor& operator[](std::string_view name) const;
  void add(std::string name, Tensor tensor) {
    fields_.push_back({std::move(name), std::move(tensor)});
  }

  /// auto& [input, target] = batch; gives the first two fields.
  template <std::size_t i>
  Tensor& get() {
    return (*this)[i];
  }
  template <std::size_t i>
  const Tensor& get() const {
    return (*this)[i];
  }

 private:
  std::vector<Field> fields_;
};

/// Changes a whole batch, such as MixUp.
using BatchTransform = std::function<void(Batch& batch, Random& random)>;
/// Joins samples in a way of one's own.
using Collate = std::function<Batch(std::vector<Sample>& samples)>;

/// The default: stacks tensors and images of equal shape and makes tensors of numbers. Throws
/// ShapeError, ValueError or DTypeError naming the field and the sample that does not fit.
FACULA_API Batch collate(std::vector<Sample>& samples);

}  // namespace facula::data

template <>
struct std::tuple_size<facula::data::Batch> : std::integral_constant<std::size_t, 2> {};
template <std::size_t i>
struct std::tuple_element<i, facula::data::Batch> {
  using type = facula::Tensor;
};
