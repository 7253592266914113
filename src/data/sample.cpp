#include <cmath>
#include <numbers>

#include <fmt/ranges.h>

#include <facula/data/sample.h>

#include "base/check.h"
#include "data/random_choice.h"

namespace facula::data {
namespace {

template <class Fields>
auto& by_position(Fields& fields, std::size_t i, const char* what) {
  check<IndexError>(i < fields.size(), "{}: field {} does not exist, there are {}", what, i,
                    fields.size());
  return fields[i];
}

template <class Fields>
auto& by_name(Fields& fields, std::string_view name, const char* what) {
  std::vector<std::string_view> names;
  for (auto& field : fields) {
    if (field.name == name) return field;
    names.push_back(field.name.empty() ? "(without a name)" : std::string_view(field.name));
  }
  fail<ValueError>("{}: there is no field '{}'; fields are [{}]", what, name,
                   fmt::join(names, ", "));
}

Purpose purpose_of(Random::Use use) {
  switch (use) {
    case Random::Use::sample: return Purpose::augment;
    case Random::Use::position: return Purpose::position;
    case Random::Use::batch: return Purpose::batch;
  }
  return Purpose::augment;
}

}  // namespace

Sample::Sample(std::initializer_list<Value> values) {
  fields_.reserve(values.size());
  for (const Value& value : values) fields_.push_back({{}, value});
}

Value& Sample::operator[](std::size_t i) { return by_position(fields_, i, "Sample").value; }

Value& Sample::operator[](std::string_view name) { return by_name(fields_, name, "Sample").value; }

Image& Sample::image() {
  for (Field& field : fields_) {
    auto* image = std::get_if<Image>(&field.value);
    if (!image) continue;
    // Transforms compute with its sizes, which would be 0.
    check<ValueError>(image->defined(),
                      "Sample::image: field {} is an undefined image; give it pixels before the "
                      "transforms",
                      &field - fields_.data());
    return *image;
  }
  fail<ValueError>(
      "Sample::image: none of the {} fields is an image; image transforms come before what makes "
      "a tensor of it, and tensors of pixels become images by Image(tensor) or from_tensors()",
      fields_.size());
}

Tensor& Sample::tensor(std::size_t i) {
  Value& value = (*this)[i];
  if (auto* number = std::get_if<std::int64_t>(&value)) {
    value = facula::tensor(*number);
  } else if (auto* real = std::get_if<double>(&value)) {
    value = facula::tensor(*real);
  } else if (auto* image = std::get_if<Image>(&value)) {
    value = image->tensor();
  }
  return std::get<Tensor>(value);
}

Random::Random(std::uint64_t seed, std::int64_t epoch, std::int64_t index, Use use)
    : seed_(seed),
      index_(static_cast<std::uint64_t>(index)),
      stream_(random_stream(purpose_of(use), epoch)) {}

void Random::refill() {
  const PhiloxBlock block = philox4x32(index_, stream_, seed_);
  std::copy_n(block.word, 4, words_);
  used_ = 0;
  stream_ += std::uint64_t{1} << 32;  // the next draw
}

double Random::normal() {
  // Box and Muller; 1 - u is never 0.
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

Tensor& Batch::operator[](std::size_t i) { return by_position(fields_, i, "Batch").tensor; }

const Tensor& Batch::operator[](std::size_t i) const {
  return by_position(fields_, i, "Batch").tensor;
}

Tensor& Batch::operator[](std::string_view name) { return by_name(fields_, name, "Batch").tensor; }

const Tensor& Batch::operator[](std::string_view name) const {
  return by_name(fields_, name, "Batch").tensor;
}

}  // namespace facula::data
